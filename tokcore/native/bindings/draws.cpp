#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <new>
#include <stdexcept>
#include <utility>
#include <vector>

#include "arrays.h"
#include "bindings.h"
#include "encode/dropout_bpe.h"
#include "encoding.h"
#include "unigram/sampled_unigram.h"
#include "wordpiece/wordpiece_model.h"

namespace nb = nanobind;

namespace tokcore {
namespace {

constexpr size_t kMaxBytes = size_t{1} << 31;  // of a pre-token, or of a text that is cut by sums

using EncodeOne =
    std::function<void(const uint8_t* text, size_t size, Draws& draws, std::vector<int32_t>* ids)>;

// Calls encode for each pre-token; those of a text share its draws.
nb::tuple encode_split(const InputArray<uint8_t>& data, const InputArray<int64_t>& offsets,
                       const InputArray<int64_t>& ends, const InputArray<int64_t>& firsts,
                       const InputArray<uint64_t>& seeds, const EncodeOne& encode) {
  check_ascending("offsets", offsets, data.shape(0));
  check_ascending("ends", ends.shape(0) == 0 ? offsets : ends, data.shape(0));
  check_ascending("firsts", firsts, ends.shape(0));
  const size_t num_texts = offsets.shape(0) - 1;
  check_size("firsts", firsts, num_texts + 1);
  check_size("seeds", seeds, num_texts);
  std::vector<int32_t> ids;
  std::vector<int64_t> starts{0};
  {
    const nb::gil_scoped_release released;
    for (size_t i = 0; i < num_texts; ++i) {
      Draws draws(seeds.data()[i]);
      int64_t begin = offsets.data()[i];
      for (int64_t j = firsts.data()[i]; j < firsts.data()[i + 1]; ++j) {
        const int64_t end = ends.data()[j];
        if (end <= begin || static_cast<size_t>(end - begin) >= kMaxBytes)
          throw std::invalid_argument("ends: a pre-token is empty, or too long");
        encode(data.data() + begin, static_cast<size_t>(end - begin), draws, &ids);
        begin = end;
      }
      if (begin != offsets.data()[i + 1]) throw std::invalid_argument("ends: a text is not covered by them");
      starts.push_back(static_cast<int64_t>(ids.size()));
    }
  }
  return nb::make_tuple(to_numpy(std::move(ids)), to_numpy(std::move(starts)));
}

void make_bpe(DropoutBpe* self, InputArray<int32_t> byte_ids, InputArray<int32_t> left,
              InputArray<int32_t> right, InputArray<int32_t> result, InputArray<uint32_t> priority) {
  const size_t num_merges = left.shape(0);
  check_size("byte_ids", byte_ids, 256);
  check_size("right", right, num_merges);
  check_size("result", result, num_merges);
  check_size("priority", priority, num_merges);
  for (size_t i = 0; i < num_merges; ++i) {
    if (left.data()[i] < 0 || right.data()[i] < 0 || result.data()[i] < 0)
      throw std::invalid_argument("a merge is of a negative id");
  }
  new (self) DropoutBpe();
  self->build(byte_ids.data(), left.data(), right.data(), result.data(), priority.data(), num_merges);
}

nb::tuple encode_bpe(const DropoutBpe& self, InputArray<uint8_t> data, InputArray<int64_t> offsets,
                     InputArray<int64_t> ends, InputArray<int64_t> firsts, InputArray<uint64_t> seeds,
                     uint64_t last) {
  DropoutBpe::Scratch scratch;
  const Chance dropout(last);
  return encode_split(data, offsets, ends, firsts, seeds,
                      [&](const uint8_t* text, size_t size, Draws& draws, std::vector<int32_t>* ids) {
                        self.encode(text, size, dropout, draws, scratch, ids);
                      });
}

void make_wordpiece(WordpieceModel* self, InputArray<uint8_t> data, InputArray<int64_t> offsets,
                    InputArray<int32_t> token_ids, InputArray<uint8_t> continues, int32_t unknown_id,
                    uint64_t max_characters, bool drops_space) {
  const size_t num_tokens = token_ids.shape(0);
  check_size("offsets", offsets, num_tokens + 1);
  check_size("continues", continues, num_tokens);
  new (self) WordpieceModel();
  const VocabularyResult built =
      self->build({data.data(), data.shape(0), offsets.data(), num_tokens, token_ids.data(), continues.data(),
                   unknown_id, max_characters, drops_space});
  if (built.status == VocabularyStatus::kOk) return;
  self->~WordpieceModel();
  throw std::invalid_argument(describe(built));
}

nb::tuple encode_wordpiece(const WordpieceModel& self, InputArray<uint8_t> data, InputArray<int64_t> offsets,
                           InputArray<int64_t> ends, InputArray<int64_t> firsts, InputArray<uint64_t> seeds,
                           uint64_t last) {
  std::vector<int32_t> found;
  const Chance dropout(last);
  return encode_split(data, offsets, ends, firsts, seeds,
                      [&](const uint8_t* text, size_t size, Draws& draws, std::vector<int32_t>* ids) {
                        found.resize(size);
                        Piece piece{text, size, text + size, found.data(), 0, 0};
                        self.encode(piece, dropout, draws);
                        ids->insert(ids->end(), found.data(), found.data() + piece.count);
                      });
}

void make_unigram(SampledUnigram* self, InputArray<uint8_t> data, InputArray<int64_t> offsets,
                  InputArray<int32_t> ids, InputArray<double> weights, InputArray<int32_t> scales,
                  int32_t unknown_id, InputArray<int32_t> byte_ids, bool splits, bool fuses) {
  const size_t num_pieces = ids.shape(0);
  check_ascending("offsets", offsets, data.shape(0));
  check_size("offsets", offsets, num_pieces + 1);
  check_size("weights", weights, num_pieces + 1);
  check_size("scales", scales, num_pieces + 1);
  if (byte_ids.shape(0) != 0) check_size("byte_ids", byte_ids, 256);
  for (size_t i = 0; i <= num_pieces; ++i) {
    const double weight = weights.data()[i];
    if (!(weight >= 0x1p-500 && weight <= 0x1p500))
      throw std::invalid_argument("weights: expected 2^-500 to 2^500");
    if (scales.data()[i] < -(1 << 30) || scales.data()[i] > 1 << 30)
      throw std::invalid_argument("scales: expected -2^30 to 2^30");
  }
  new (self) SampledUnigram();
  const auto words = splits ? SampledUnigram::Words::kEverySpace : SampledUnigram::Words::kOne;
  if (self->build(data.data(), offsets.data(), ids.data(), weights.data(), scales.data(), num_pieces,
                  unknown_id, byte_ids.shape(0) == 0 ? nullptr : byte_ids.data(), words, fuses))
    return;
  self->~SampledUnigram();
  throw std::invalid_argument("a piece is empty, or is there twice");
}

nb::tuple encode_unigram(const SampledUnigram& self, InputArray<uint8_t> data, InputArray<int64_t> offsets,
                         InputArray<uint64_t> seeds) {
  check_ascending("offsets", offsets, data.shape(0));
  const size_t num_texts = offsets.shape(0) - 1;
  check_size("seeds", seeds, num_texts);
  std::vector<int32_t> ids;
  std::vector<int64_t> starts{0}, words;
  {
    const nb::gil_scoped_release released;
    SampledUnigram::Scratch scratch;
    for (size_t i = 0; i < num_texts; ++i) {
      Draws draws(seeds.data()[i]);
      const int64_t begin = offsets.data()[i], end = offsets.data()[i + 1];
      if (static_cast<size_t>(end - begin) >= kMaxBytes) throw std::invalid_argument("a text is too long");
      words.push_back(static_cast<int64_t>(
          self.encode(data.data() + begin, static_cast<size_t>(end - begin), draws, scratch, &ids)));
      starts.push_back(static_cast<int64_t>(ids.size()));
    }
  }
  return nb::make_tuple(to_numpy(std::move(ids)), to_numpy(std::move(starts)), to_numpy(std::move(words)));
}

}  // namespace

void bind_draws(nb::module_& module) {
  nb::class_<DropoutBpe>(module, "DropoutBpe")
      .def("__init__", &make_bpe, nb::arg("byte_ids"), nb::arg("left"), nb::arg("right"), nb::arg("result"),
           nb::arg("priority"))
      .def("encode", &encode_bpe, nb::arg("data"), nb::arg("offsets"), nb::arg("ends"), nb::arg("firsts"),
           nb::arg("seeds"), nb::arg("last"), "(ids, offsets) of texts that are split.");
  nb::class_<WordpieceModel>(module, "DropoutWordpiece")
      .def("__init__", &make_wordpiece, nb::arg("data"), nb::arg("offsets"), nb::arg("token_ids"),
           nb::arg("continues"), nb::arg("unknown_id"), nb::arg("max_characters"), nb::arg("drops_space"))
      .def("encode", &encode_wordpiece, nb::arg("data"), nb::arg("offsets"), nb::arg("ends"),
           nb::arg("firsts"), nb::arg("seeds"), nb::arg("last"), "(ids, offsets) of texts that are split.");
  nb::class_<SampledUnigram>(module, "SampledUnigram")
      .def("__init__", &make_unigram, nb::arg("data"), nb::arg("offsets"), nb::arg("ids"), nb::arg("weights"),
           nb::arg("scales"), nb::arg("unknown_id"), nb::arg("byte_ids"), nb::arg("splits"), nb::arg("fuses"))
      .def("encode", &encode_unigram, nb::arg("data"), nb::arg("offsets"), nb::arg("seeds"),
           "(ids, offsets, words of each text) of normalized texts.");
}

}  // namespace tokcore
