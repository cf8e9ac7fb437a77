#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <new>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "arrays.h"
#include "bindings.h"
#include "encoding.h"
#include "sentencepiece/sentencepiece_encoder.h"

namespace nb = nanobind;

namespace tokcore {
namespace {

// Throws std::invalid_argument unless the sizes fit together and unknown text has an id. types: one a piece.
PieceList make_piece_list(const InputArray<uint8_t>& data, const InputArray<int64_t>& offsets,
                          const InputArray<int32_t>& ids, const InputArray<double>& scores,
                          const uint8_t* types, int32_t unknown_id, const InputArray<int32_t>& byte_ids) {
  const size_t num_pieces = ids.shape(0);
  check_size("offsets", offsets, num_pieces + 1);
  check_size("scores", scores, num_pieces);
  if (byte_ids.shape(0) != 0) check_size("byte_ids", byte_ids, 256);
  if (byte_ids.shape(0) == 0 && unknown_id < 0)
    throw std::invalid_argument("unknown_id: without byte_ids, unknown text needs an id");
  const int32_t* const bytes = byte_ids.shape(0) == 0 ? nullptr : byte_ids.data();
  return {data.data(),   data.shape(0), offsets.data(), num_pieces, ids.data(),
          scores.data(), types,         unknown_id,     bytes};
}

void make_sentencepiece(SentencepieceEncoder* self, bool is_unigram, InputArray<uint8_t> data,
                        InputArray<int64_t> offsets, InputArray<int32_t> ids, InputArray<double> scores,
                        InputArray<uint8_t> types, int32_t unknown_id, InputArray<int32_t> byte_ids,
                        InputArray<uint8_t> charsmap, bool add_dummy_prefix, bool remove_extra_whitespaces,
                        bool escape_whitespaces, bool whitespace_is_suffix, size_t cache_bytes) {
  check_size("types", types, ids.shape(0));
  const PieceList pieces = make_piece_list(data, offsets, ids, scores, types.data(), unknown_id, byte_ids);
  const NormalizerRules rules{charsmap.data(),          charsmap.shape(0),  add_dummy_prefix,
                              remove_extra_whitespaces, escape_whitespaces, whitespace_is_suffix};
  new (self) SentencepieceEncoder(cache_bytes);
  VocabularyResult built;
  bool is_charsmap = true;
  {
    const nb::gil_scoped_release released;
    built = self->build(pieces, rules, is_unigram, &is_charsmap);
  }
  if (built.status == VocabularyStatus::kOk && is_charsmap) return;
  self->~SentencepieceEncoder();
  throw std::invalid_argument(is_charsmap ? describe(built) : "this is no charsmap, or a damaged one");
}

void make_converted(SentencepieceEncoder* self, bool is_unigram, InputArray<uint8_t> data,
                    InputArray<int64_t> offsets, InputArray<int32_t> ids, InputArray<double> scores,
                    int32_t unknown_id, InputArray<int32_t> byte_ids, InputArray<uint32_t> left,
                    InputArray<uint32_t> right, InputArray<uint32_t> result,
                    const std::vector<std::tuple<uint8_t, nb::bytes, nb::bytes>>& steps,
                    bool splits_every_space, size_t cache_bytes) {
  const std::vector<uint8_t> types(ids.shape(0), static_cast<uint8_t>(PieceType::kNormal));
  const PieceList pieces = make_piece_list(data, offsets, ids, scores, types.data(), unknown_id, byte_ids);
  const size_t num_merges = left.shape(0);
  check_size("right", right, num_merges);
  check_size("result", result, num_merges);
  for (size_t i = 0; i < num_merges; ++i) {
    if (std::max({left.data()[i], right.data()[i], result.data()[i]}) >= pieces.num_pieces)
      throw std::invalid_argument("merge " + std::to_string(i) + ": a place is past the last piece");
  }
  ConvertedRules rules{{}, {left.data(), right.data(), result.data(), num_merges}, splits_every_space};
  for (const auto& [kind, pattern, text] : steps) {
    if (!rules.steps.add(kind, std::string(pattern.c_str(), pattern.size()),
                         std::string(text.c_str(), text.size())))
      throw std::invalid_argument("this is no charsmap, or a damaged one");
  }
  new (self) SentencepieceEncoder(cache_bytes);
  VocabularyResult built;
  {
    const nb::gil_scoped_release released;
    built = self->build_converted(pieces, std::move(rules), is_unigram);
  }
  if (built.status == VocabularyStatus::kOk) return;
  self->~SentencepieceEncoder();
  throw std::invalid_argument(describe(built));
}

nb::tuple normalize(const SentencepieceEncoder& self, InputArray<uint8_t> data, InputArray<int64_t> offsets) {
  check_ascending("offsets", offsets, data.shape(0));
  PaddedBytes out;
  std::vector<uint8_t> normalized;
  std::vector<int64_t> ends(offsets.shape(0), 0);
  {
    const nb::gil_scoped_release released;
    for (size_t i = 0; i + 1 < ends.size(); ++i) {
      const int64_t begin = offsets.data()[i], end = offsets.data()[i + 1];
      self.normalize(data.data() + begin, static_cast<size_t>(end - begin), &out);
      ends[i + 1] = static_cast<int64_t>(out.size());
    }
    normalized.assign(out.data(), out.data() + out.size());
  }
  return nb::make_tuple(to_numpy(std::move(normalized)), to_numpy(std::move(ends)));
}

}  // namespace

void bind_sentencepiece(nb::module_& module) {
  nb::class_<SentencepieceEncoder> encoder(module, "SentencepieceEncoder");
  encoder
      .def("__init__", &make_sentencepiece, nb::arg("is_unigram"), nb::arg("data"), nb::arg("offsets"),
           nb::arg("ids"), nb::arg("scores"), nb::arg("types"), nb::arg("unknown_id"), nb::arg("byte_ids"),
           nb::arg("charsmap"), nb::arg("add_dummy_prefix"), nb::arg("remove_extra_whitespaces"),
           nb::arg("escape_whitespaces"), nb::arg("whitespace_is_suffix"), nb::arg("cache_bytes"))
      .def("__init__", &make_converted, nb::arg("is_unigram"), nb::arg("data"), nb::arg("offsets"),
           nb::arg("ids"), nb::arg("scores"), nb::arg("unknown_id"), nb::arg("byte_ids"), nb::arg("left"),
           nb::arg("right"), nb::arg("result"), nb::arg("steps"), nb::arg("splits_every_space"),
           nb::arg("cache_bytes"))
      .def("normalize", &normalize, nb::arg("data"), nb::arg("offsets"),
           "(bytes, offsets) of the texts as they are before pieces are looked for.");
  bind_encoding(encoder);
}

}  // namespace tokcore
