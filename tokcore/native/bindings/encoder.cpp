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

void make_symbol_encoder(Encoder* self, std::string_view pattern, InputArray<uint8_t> whole_data,
                         InputArray<int64_t> whole_offsets, InputArray<int32_t> token_ids,
                         InputArray<uint32_t> characters, InputArray<uint8_t> places,
                         InputArray<uint32_t> symbols, bool bytewise, InputArray<int32_t> byte_symbols,
                         int32_t unknown, bool fuses_unknown, InputArray<uint32_t> left,
                         InputArray<uint32_t> right, InputArray<uint32_t> result,
                         InputArray<uint32_t> whole_symbols, size_t cache_bytes,
                         std::string_view implementation) {
  const size_t num_characters = characters.shape(0), num_merges = left.shape(0);
  check_size("places", places, num_characters);
  check_size("symbols", symbols, num_characters);
  if (byte_symbols.shape(0) != 0) check_size("byte_symbols", byte_symbols, 256);
  check_size("right", right, num_merges);
  check_size("result", result, num_merges);
  check_size("whole_offsets", whole_offsets, whole_symbols.shape(0) + 1);
  std::optional<Scanner> scanner;
  if (!pattern.empty()) scanner = scanner_from_names(pattern, implementation);
  new (self) Encoder(scanner, checked_implementation(implementation), cache_bytes);
  build(self, SymbolVocabulary{token_ids.data(), token_ids.shape(0), characters.data(), places.data(),
                               symbols.data(), num_characters, bytewise,
                               byte_symbols.shape(0) == 0 ? nullptr : byte_symbols.data(), unknown,
                               fuses_unknown, left.data(), right.data(), result.data(), num_merges,
                               whole_data.data(), whole_data.shape(0), whole_offsets.data(),
                               whole_symbols.data(), whole_symbols.shape(0)});
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
           nb::arg("token_ids"), nb::arg("scores"), nb::arg("cache_bytes"), nb::arg("implementation"))
      .def("__init__", &make_symbol_encoder, nb::arg("pattern"), nb::arg("whole_data"),
           nb::arg("whole_offsets"), nb::arg("token_ids"), nb::arg("characters"), nb::arg("places"),
           nb::arg("symbols"), nb::arg("bytewise"), nb::arg("byte_symbols"), nb::arg("unknown"),
           nb::arg("fuses_unknown"), nb::arg("left"), nb::arg("right"), nb::arg("result"),
           nb::arg("whole_symbols"), nb::arg("cache_bytes"), nb::arg("implementation"));
  bind_encoding(encoder);
}

}  // namespace tokcore
