// DESCRIPTION
// The words that a learner is given: of bytes, or of symbols. symbol(at) is the one at a place that offsets
// count in. Words belong to the caller, and are not copied. Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tokcore {

struct ByteWords {
  const uint8_t* data;
  const uint8_t* id_of_byte;
  const int64_t* offsets;
  const uint64_t* counts;
  size_t num_words;

  uint32_t symbol(size_t at) const { return id_of_byte[data[at]]; }
};
struct SymbolWords {
  const uint32_t* symbols;
  const int64_t* offsets;
  const uint64_t* counts;
  size_t num_words;

  uint32_t symbol(size_t at) const { return symbols[at]; }
};

template <typename Words>
size_t size_of(const Words& words, size_t i) {
  return static_cast<size_t>(words.offsets[i + 1] - words.offsets[i]);
}
// A word without pairs takes no part.
template <typename Words>
bool has_pairs(const Words& words, size_t i) {
  return size_of(words, i) >= 2 && words.counts[i] != 0;
}

}  // namespace tokcore
