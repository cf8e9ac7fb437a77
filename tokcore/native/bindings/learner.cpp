#include "learn/learner.h"

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/tuple.h>

#include <limits>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "arrays.h"
#include "bindings.h"
#include "wordpiece/character_words.h"

namespace nb = nanobind;

namespace tokcore {
namespace {

using Merges = std::tuple<OutputArray<int32_t>, OutputArray<int32_t>, OutputArray<uint64_t>>;
using CharacterMerges = std::tuple<OutputArray<uint32_t>, OutputArray<uint32_t>, OutputArray<int32_t>,
                                   OutputArray<int32_t>, OutputArray<uint64_t>>;

template <typename T>
void check_table(InputArray<T>& data, InputArray<int64_t>& offsets, InputArray<uint64_t>& counts,
                 InOutArray<int64_t>& merges_done, const LearnOptions& options) {
  check_ascending("offsets", offsets, data.shape(0));
  check_size("counts", counts, offsets.shape(0) - 1);
  if (options.threads == 0) throw std::invalid_argument("threads = 0: must be at least 1");
  if (options.max_narrow_ids > (size_t{1} << 16))
    throw std::invalid_argument("max_narrow_ids: at most 2**16");
  if (merges_done.shape(0) != 1) throw std::invalid_argument("merges_done: expected one number");
}

void check_learned(const Learned& learned) {
  if (learned.status == LearnStatus::kCountOverflow)
    throw std::overflow_error("the pairs of the table are more than 2**63 - 1");
}

Merges learn_arrays(InputArray<uint8_t> data, InputArray<int64_t> offsets, InputArray<uint64_t> counts,
                    size_t num_merges, uint64_t min_count, size_t max_token_bytes, size_t threads,
                    nb::bytes id_of_byte, InOutArray<int64_t> merges_done, size_t min_parallel_units,
                    size_t max_narrow_ids, size_t first_guess, uint64_t guessed_count) {
  LearnOptions options{.num_merges = num_merges,
                       .min_count = min_count,
                       .max_token_bytes = max_token_bytes,
                       .threads = threads,
                       .id_of_byte = static_cast<const uint8_t*>(id_of_byte.data()),
                       .merges_done = merges_done.data(),
                       .min_parallel_units = min_parallel_units,
                       .max_narrow_ids = max_narrow_ids,
                       .first_guess = first_guess,
                       .guessed_count = guessed_count};
  check_table(data, offsets, counts, merges_done, options);
  constexpr size_t kMaxMerges = (size_t{1} << 31) - 256;
  if (num_merges > kMaxMerges) {
    throw std::invalid_argument("num_merges = " + std::to_string(num_merges) + ": ids are below 2**31");
  }
  if (id_of_byte.size() != 256) throw std::invalid_argument("id_of_byte: expected 256 ids");
  Learned learned;
  {
    nb::gil_scoped_release released;
    learned = learn(data.data(), offsets.data(), counts.data(), counts.shape(0), options);
  }
  check_learned(learned);
  return {to_numpy(std::move(learned.left)), to_numpy(std::move(learned.right)),
          to_numpy(std::move(learned.count))};
}

CharacterMerges learn_characters_arrays(InputArray<uint8_t> data, InputArray<int64_t> offsets,
                                        InputArray<uint64_t> counts, size_t num_tokens, uint64_t min_count,
                                        size_t max_token_bytes, size_t threads, bool by_score,
                                        InOutArray<int64_t> merges_done, size_t min_parallel_units,
                                        size_t max_narrow_ids) {
  LearnOptions options{.min_count = min_count,
                       .max_token_bytes = max_token_bytes,
                       .threads = threads,
                       .by_score = by_score,
                       .merges_done = merges_done.data(),
                       .min_parallel_units = min_parallel_units,
                       .max_narrow_ids = max_narrow_ids};
  check_table(data, offsets, counts, merges_done, options);
  if (num_tokens >= (size_t{1} << 31)) {
    throw std::invalid_argument("num_tokens = " + std::to_string(num_tokens) + ": ids are below 2**31");
  }
  CharacterWords words;
  Learned learned;
  {
    nb::gil_scoped_release released;
    words = make_character_words(data.data(), offsets.data(), counts.data(), counts.shape(0));
    const size_t num_symbols = words.first.size() + words.further.size();
    options.num_merges = num_tokens > num_symbols ? num_tokens - num_symbols : 0;
    learned = learn_symbols(words.symbols.data(), words.offsets.data(), words.counts.data(),
                            words.counts.size(), words.symbol_bytes(), options);
  }
  check_learned(learned);
  return {to_numpy(std::move(words.first)), to_numpy(std::move(words.further)),
          to_numpy(std::move(learned.left)), to_numpy(std::move(learned.right)),
          to_numpy(std::move(learned.count))};
}

Merges learn_symbols_arrays(InputArray<uint32_t> symbols, InputArray<int64_t> offsets,
                            InputArray<uint64_t> counts, InputArray<int64_t> symbol_bytes, size_t num_merges,
                            uint64_t min_count, size_t max_token_bytes, size_t threads,
                            InOutArray<int64_t> merges_done, size_t min_parallel_units, size_t max_narrow_ids,
                            size_t first_guess, uint64_t guessed_count) {
  const LearnOptions options{.num_merges = num_merges,
                             .min_count = min_count,
                             .max_token_bytes = max_token_bytes,
                             .threads = threads,
                             .merges_done = merges_done.data(),
                             .min_parallel_units = min_parallel_units,
                             .max_narrow_ids = max_narrow_ids,
                             .first_guess = first_guess,
                             .guessed_count = guessed_count};
  check_table(symbols, offsets, counts, merges_done, options);
  const size_t num_symbols = symbol_bytes.shape(0);
  if (num_symbols >= size_t{1} << 31 || num_merges > (size_t{1} << 31) - num_symbols) {
    throw std::invalid_argument("num_merges = " + std::to_string(num_merges) + ": ids are below 2**31");
  }
  for (size_t i = 0; i < symbols.shape(0); ++i) {
    if (symbols.data()[i] >= num_symbols) {
      throw std::invalid_argument("symbols[" + std::to_string(i) +
                                  "] = " + std::to_string(symbols.data()[i]) + ": expected one below " +
                                  std::to_string(num_symbols));
    }
  }
  Learned learned;
  {
    nb::gil_scoped_release released;
    learned =
        learn_symbols(symbols.data(), offsets.data(), counts.data(), counts.shape(0),
                      std::vector<size_t>(symbol_bytes.data(), symbol_bytes.data() + num_symbols), options);
  }
  check_learned(learned);
  return {to_numpy(std::move(learned.left)), to_numpy(std::move(learned.right)),
          to_numpy(std::move(learned.count))};
}

}  // namespace

void bind_learner(nb::module_& module) {
  module.def("learn", &learn_arrays, nb::arg("data"), nb::arg("offsets"), nb::arg("counts"),
             nb::arg("num_merges"), nb::arg("min_count"), nb::arg("max_token_bytes"), nb::arg("threads"),
             nb::arg("id_of_byte"), nb::arg("merges_done").noconvert(),
             nb::arg("min_parallel_units") = LearnOptions{}.min_parallel_units,
             nb::arg("max_narrow_ids") = LearnOptions{}.max_narrow_ids,
             nb::arg("first_guess") = LearnOptions{}.first_guess,
             nb::arg("guessed_count") = LearnOptions{}.guessed_count,
             "(left, right, count) of the merges, in order; fewer than num_merges if no pair is left.");
  module.def("learn_symbols", &learn_symbols_arrays, nb::arg("symbols"), nb::arg("offsets"),
             nb::arg("counts"), nb::arg("symbol_bytes"), nb::arg("num_merges"), nb::arg("min_count"),
             nb::arg("max_token_bytes"), nb::arg("threads"), nb::arg("merges_done").noconvert(),
             nb::arg("min_parallel_units") = LearnOptions{}.min_parallel_units,
             nb::arg("max_narrow_ids") = LearnOptions{}.max_narrow_ids,
             nb::arg("first_guess") = LearnOptions{}.first_guess,
             nb::arg("guessed_count") = LearnOptions{}.guessed_count,
             "As learn, of words of symbols; merge i makes the symbol after the last one that has bytes.");
  module.def(
      "learn_characters", &learn_characters_arrays, nb::arg("data"), nb::arg("offsets"), nb::arg("counts"),
      nb::arg("num_tokens"), nb::arg("min_count"), nb::arg("max_token_bytes"), nb::arg("threads"),
      nb::arg("by_score"), nb::arg("merges_done").noconvert(),
      nb::arg("min_parallel_units") = LearnOptions{}.min_parallel_units,
      nb::arg("max_narrow_ids") = LearnOptions{}.max_narrow_ids,
      "(code points that begin words, code points that go on, left, right, count); ids are in this order.");
}

}  // namespace tokcore
