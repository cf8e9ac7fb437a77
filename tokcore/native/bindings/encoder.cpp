#include "encode/encoder.h"

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>

#include <cstddef>
#include <cstdint>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "arrays.h"
#include "bindings.h"
#include "encoding.h"

namespace nb = nanobind;

namespace tokcore {
namespace {

template <typename AnyVocabulary>
void build(Encoder* self, const AnyVocabulary& vocabulary) {
  VocabularyResult built;
  {
    const nb::gil_scoped_release released;
    built = self->build(vocabulary);
  }
  if (built.status == VocabularyStatus::kOk) return;
  self->~Encoder();
  throw std::invalid_argument(describe(built));
}

void make_encoder(Encoder* self, std::string_view pattern, InputArray<uint8_t> data,
                  InputArray<int64_t> offsets, InputArray<int32_t> token_ids, InputArray<int32_t> left,
                  InputArray<int32_t> right, InputArray<int32_t> result, InputArray<uint32_t> priority,
                  bool whole, size_t cache_bytes, std::string_view implementation) {
  const size_t num_tokens = token_ids.shape(0), num_merges = left.shape(0);
  check_size("offsets", offsets, num_tokens + 1);
  check_size("right", right, num_merges);
  check_size("result", result, num_merges);
  check_size("priority", priority, num_merges);
  std::optional<Scanner> scanner;
  if (!pattern.empty()) scanner = scanner_from_names(pattern, implementation);
  new (self) Encoder(scanner, checked_implementation(implementation), cache_bytes);
  build(self, Vocabulary{data.data(), data.shape(0), offsets.data(), num_tokens, token_ids.data(), num_merges,
                         left.data(), right.data(), result.data(), priority.data(), whole});
}

void make_wordpiece_encoder(Encoder* self, std::string_view pattern, InputArray<uint8_t> data,
                            InputArray<int64_t> offsets, InputArray<int32_t> token_ids,
                            InputArray<uint8_t> continues, int32_t unknown_id, uint64_t max_characters,
                            bool drops_space, size_t cache_bytes, std::string_view implementation) {
  const size_t num_tokens = token_ids.shape(0);
  check_size("offsets", offsets, num_tokens + 1);
  check_size("continues", continues, num_tokens);
  std::optional<Scanner> scanner;
  if (!pattern.empty()) scanner = scanner_from_names(pattern, implementation);
  new (self) Encoder(scanner, checked_implementation(implementation), cache_bytes);
  build(self, WordpieceVocabulary{data.data(), data.shape(0), offsets.data(), num_tokens, token_ids.data(),
                                  continues.data(), unknown_id, max_characters, drops_space});
}

void make_byte_unigram_encoder(Encoder* self, std::string_view pattern, InputArray<uint8_t> data,
                               InputArray<int64_t> offsets, InputArray<int32_t> token_ids,
                               InputArray<double> scores, size_t cache_bytes,
                               std::string_view implementation) {
  const size_t num_tokens = token_ids.shape(0);
  check_size("offsets", offsets, num_tokens + 1);
  check_size("scores", scores, num_tokens);
  std::optional<Scanner> scanner;
  if (!pattern.empty()) scanner = scanner_from_names(pattern, implementation);
  new (self) Encoder(scanner, checked_implementation(implementation), cache_bytes);
  build(self, ByteUnigramVocabulary{data.data(), data.shape(0), offsets.data(), num_tokens, token_ids.data(),
                                    scores.data()});
}

}  // namespace

void bind_encoder(nb::module_& module) {
  nb::class_<Encoder> encoder(module, "Encoder");
  encoder
      .def("__init__", &make_encoder, nb::arg("pattern"), nb::arg("data"), nb::arg("offsets"),
           nb::arg("token_ids"), nb::arg("left"), nb::arg("right"), nb::arg("result"), nb::arg("priority"),
           nb::arg("whole"), nb::arg("cache_bytes"), nb::arg("implementation"))
      .def("__init__", &make_wordpiece_encoder, nb::arg("pattern"), nb::arg("data"), nb::arg("offsets"),
           nb::arg("token_ids"), nb::arg("continues"), nb::arg("unknown_id"), nb::arg("max_characters"),
           nb::arg("drops_space"), nb::arg("cache_bytes"), nb::arg("implementation"))
      .def("__init__", &make_byte_unigram_encoder, nb::arg("pattern"), nb::arg("data"), nb::arg("offsets"),
           nb::arg("token_ids"), nb::arg("scores"), nb::arg("cache_bytes"), nb::arg("implementation"));
  bind_encoding(encoder);
}

}  // namespace tokcore
