#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/tuple.h>

#include <algorithm>
#include <stdexcept>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "arrays.h"
#include "bindings.h"
#include "learn/learner.h"
#include "learn/piece_limits.h"
#include "sentencepiece/piece_words.h"
#include "unigram/exact_math.h"
#include "unigram/fewest_tokens.h"
#include "unigram/unigram_learner.h"

namespace nb = nanobind;

namespace tokcore {
namespace {

using LearnedMerges = std::tuple<OutputArray<uint32_t>, OutputArray<uint32_t>, OutputArray<int32_t>,
                                 OutputArray<int32_t>, OutputArray<uint64_t>>;

// What both learners take: a table of words, and which pieces there may be.
class PieceTable {
 public:
  PieceTable(nb::tuple words, nb::tuple rules)
      : data_(nb::cast<InputArray<uint8_t>>(words[0])),
        offsets_(nb::cast<InputArray<int64_t>>(words[1])),
        counts_(nb::cast<InputArray<uint64_t>>(words[2])),
        reserved_data_(nb::cast<InputArray<uint8_t>>(rules[0])),
        reserved_offsets_(nb::cast<InputArray<int64_t>>(rules[1])),
        starts_(nb::cast<InputArray<uint32_t>>(rules[2])),
        scripts_(nb::cast<InputArray<uint8_t>>(rules[3])),
        coverage_(nb::cast<float>(rules[4])),
        limits_{nb::cast<size_t>(rules[5]), nb::cast<bool>(rules[6]), nb::cast<bool>(rules[7]),
                nb::cast<bool>(rules[8]), nb::cast<bool>(rules[9])} {
    check_ascending("offsets", offsets_, data_.shape(0));
    check_size("counts", counts_, offsets_.shape(0) - 1);
    check_ascending("reserved_offsets", reserved_offsets_, reserved_data_.shape(0));
    check_size("scripts", scripts_, starts_.shape(0));
    if (starts_.shape(0) == 0 || starts_.data()[0] != 0)
      throw std::invalid_argument("script_starts: the first is 0");
    for (size_t i = 0; i + 1 < reserved_offsets_.shape(0); ++i) {
      const int64_t begin = reserved_offsets_.data()[i], end = reserved_offsets_.data()[i + 1];
      if (begin == end) throw std::invalid_argument("reserved: a text is empty");
      reserved_.emplace_back(reinterpret_cast<const char*>(reserved_data_.data()) + begin,
                             static_cast<size_t>(end - begin));
    }
    std::vector<std::string_view> sorted = reserved_;
    std::sort(sorted.begin(), sorted.end());
    if (std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end())
      throw std::invalid_argument("reserved: a text is there twice");
  }

  PieceWords make_words() const {
    return make_piece_words(data_.data(), offsets_.data(), counts_.data(), counts_.shape(0), reserved_,
                            coverage_);
  }
  PieceChecker make_checker(const PieceWords& words) const {
    return PieceChecker(words.code_points, {starts_.data(), scripts_.data(), starts_.shape(0)}, limits_);
  }

 private:
  InputArray<uint8_t> data_;
  InputArray<int64_t> offsets_;
  InputArray<uint64_t> counts_;
  InputArray<uint8_t> reserved_data_;
  InputArray<int64_t> reserved_offsets_;
  InputArray<uint32_t> starts_;
  InputArray<uint8_t> scripts_;
  float coverage_;
  PieceLimits limits_;
  std::vector<std::string_view> reserved_;
};

[[noreturn]] void throw_overflow() {
  throw std::overflow_error("the characters of the table are more than 2**63 - 1");
}

void check_common(size_t num_tokens, size_t threads, const InOutArray<int64_t>& done) {
  if (num_tokens >= (size_t{1} << 31))
    throw std::invalid_argument("num_tokens = " + std::to_string(num_tokens) + ": ids are below 2**31");
  if (threads == 0) throw std::invalid_argument("threads = 0: must be at least 1");
  if (done.shape(0) != 1) throw std::invalid_argument("merges_done: expected one number");
}

LearnedMerges learn_piece_merges(nb::tuple words_given, nb::tuple rules, size_t num_tokens,
                                 uint64_t min_count, size_t threads, InOutArray<int64_t> merges_done,
                                 size_t min_parallel_units, size_t max_narrow_ids) {
  check_common(num_tokens, threads, merges_done);
  const PieceTable table(std::move(words_given), std::move(rules));
  PieceWords words;
  Learned learned;
  {
    const nb::gil_scoped_release released;
    words = table.make_words();
    if (!words.overflows) {
      const PieceChecker checker = table.make_checker(words);
      const size_t num_symbols = words.code_points.size();
      const LearnOptions options{.num_merges = num_tokens > num_symbols ? num_tokens - num_symbols : 0,
                                 .min_count = min_count,
                                 .threads = threads,
                                 .pieces = &checker,
                                 .merges_done = merges_done.data(),
                                 .min_parallel_units = min_parallel_units,
                                 .max_narrow_ids = max_narrow_ids};
      learned = learn_symbols(words.symbols.data(), words.offsets.data(), words.counts.data(),
                              words.counts.size(), std::vector<size_t>(num_symbols, 1), options);
    }
  }
  if (words.overflows || learned.status == LearnStatus::kCountOverflow) throw_overflow();
  return {to_numpy(std::move(words.code_points)), to_numpy(std::move(words.by_count)),
          to_numpy(std::move(learned.left)), to_numpy(std::move(learned.right)),
          to_numpy(std::move(learned.count))};
}

using UnigramPieceList = std::tuple<OutputArray<uint32_t>, OutputArray<int64_t>, OutputArray<float>>;

UnigramPieceList learn_unigram_pieces(nb::tuple words_given, nb::tuple rules, size_t num_tokens,
                                      size_t num_before_last_cut, size_t num_seeds, double scale,
                                      uint64_t min_seed_count, size_t threads,
                                      InOutArray<int64_t> rounds_done) {
  check_common(num_tokens, threads, rounds_done);
  const PieceTable table(std::move(words_given), std::move(rules));
  std::vector<uint32_t> text;
  std::vector<int64_t> offsets{0};
  std::vector<float> scores;
  bool overflows = false;
  {
    const nb::gil_scoped_release released;
    const PieceWords words = table.make_words();
    overflows = words.overflows;
    if (!overflows) {
      const PieceChecker checker = table.make_checker(words);
      const UnigramOptions options{num_tokens, num_before_last_cut, num_seeds, scale, min_seed_count,
                                   threads,    rounds_done.data()};
      for (const LearnedPiece& piece : learn_unigram(words, checker, options)) {
        for (const uint32_t symbol : piece.symbols) text.push_back(words.code_points[symbol]);
        offsets.push_back(static_cast<int64_t>(text.size()));
        scores.push_back(piece.score);
      }
    }
  }
  if (overflows) throw_overflow();
  return {to_numpy(std::move(text)), to_numpy(std::move(offsets)), to_numpy(std::move(scores))};
}

OutputArray<int32_t> drop_least_needed_tokens(InputArray<uint8_t> data, InputArray<int64_t> offsets,
                                              InputArray<uint64_t> counts, InputArray<uint8_t> token_data,
                                              InputArray<int64_t> token_offsets, size_t num_kept,
                                              size_t threads) {
  check_ascending("offsets", offsets, data.shape(0));
  check_size("counts", counts, offsets.shape(0) - 1);
  check_ascending("token_offsets", token_offsets, token_data.shape(0));
  if (token_offsets.shape(0) > (size_t{1} << 31)) throw std::invalid_argument("tokens: ids are below 2**31");
  if (threads == 0) throw std::invalid_argument("threads = 0: must be at least 1");
  const ByteStrings words{data.data(), offsets.data(), counts.shape(0)};
  const ByteStrings tokens{token_data.data(), token_offsets.data(), token_offsets.shape(0) - 1};
  KeptTokens kept;
  {
    const nb::gil_scoped_release released;
    kept = drop_least_needed(words, counts.data(), tokens, {num_kept, threads});
  }
  switch (kept.status) {
    case FewestTokensStatus::kOk:
      break;
    case FewestTokensStatus::kMissingByte:
      throw std::invalid_argument("tokens: expected each of the 256 bytes");
    case FewestTokensStatus::kEmptyToken:
      throw std::invalid_argument("tokens: one is empty");
    case FewestTokensStatus::kDuplicateToken:
      throw std::invalid_argument("tokens: one is there twice");
    case FewestTokensStatus::kTooMany:
      throw std::invalid_argument("tokens: they are too many");
    case FewestTokensStatus::kCountOverflow:
      throw std::overflow_error("the bytes of the table are more than 2**63 - 1");
  }
  return to_numpy(std::move(kept.places));
}

std::tuple<double, double, double> evaluate_exact_math(double x) {
  return {exact_exp(x), x > 0 ? exact_log(x) : 0, x >= 0x1p-10 ? exact_digamma(x) : 0};
}

}  // namespace

void bind_pieces(nb::module_& module) {
  module.def("learn_piece_merges", &learn_piece_merges, nb::arg("words"), nb::arg("rules"),
             nb::arg("num_tokens"), nb::arg("min_count"), nb::arg("threads"),
             nb::arg("merges_done").noconvert(),
             nb::arg("min_parallel_units") = LearnOptions{}.min_parallel_units,
             nb::arg("max_narrow_ids") = LearnOptions{}.max_narrow_ids,
             "(code points, their ids by count, left, right, count); ids are in this order.");
  module.def("learn_unigram", &learn_unigram_pieces, nb::arg("words"), nb::arg("rules"),
             nb::arg("num_tokens"), nb::arg("num_before_last_cut"), nb::arg("num_seeds"), nb::arg("scale"),
             nb::arg("min_seed_count"), nb::arg("threads"), nb::arg("rounds_done").noconvert(),
             "(code points, offsets) of the pieces, and their scores, the highest first.");
  module.def("drop_least_needed", &drop_least_needed_tokens, nb::arg("data"), nb::arg("offsets"),
             nb::arg("counts"), nb::arg("token_data"), nb::arg("token_offsets"), nb::arg("num_kept"),
             nb::arg("threads"), "The places of the tokens that stay, ascending.");
  module.def("evaluate_exact_math", &evaluate_exact_math, nb::arg("x"),
             "(exp, log, digamma) of x, for tests.");
}

}  // namespace tokcore
