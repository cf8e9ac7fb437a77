// DESCRIPTION
// learn() finds BPE merges: again and again the pair of neighbouring symbols with the highest count, between
// equal counts the one with the smaller left id, then the smaller right id, which then becomes one symbol
// everywhere, from left to right without overlap. The count of a pair is the sum over words of the word's
// count times its windows that hold the pair ("aaa" has two of (a, a)). Ids: 0 to 255 are the bytes in the
// order given, 256 + i is merge i. The result depends on the sums of counts per word alone: not on order,
// repetitions or threads. Cost: each replacement costs a constant for words of up to 256 symbols, and for
// longer ones too, which are kept in linked segments; finding the pair to merge is O(log pairs). Memory:
// about 2 bytes a symbol (4 beyond 65,534 ids), 12 a word, 4 a word and distinct pair in it, 50 a pair that
// is frequent enough to be merged. See OPTIMIZATIONS.md for what was tried. Any number of calls may run at
// once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tokcore {

struct LearnOptions {
  size_t num_merges = 0;                // at most 2^31 - 256
  uint64_t min_count = 0;               // a pair with a lower count is not merged, nor is one with none
  size_t max_token_bytes = 0;           // a longer token is not made; 0: no limit
  size_t threads = 1;                   // at least 1
  const uint8_t* id_of_byte = nullptr;  // 256 ids, a permutation
  // Merges that touch fewer units (words, or segments of long ones) than this are left to one thread.
  size_t min_parallel_units = 8192;
  // While ids are below this, symbols take two bytes; at most 2^16.
  size_t max_narrow_ids = 65536;
};

enum class LearnStatus : uint8_t {
  kOk,             // fewer merges than asked for mean that no pair was left
  kCountOverflow,  // all windows together, each as often as its word, are more than 2^63 - 1
};

struct Learned {
  LearnStatus status = LearnStatus::kOk;
  std::vector<int32_t> left;
  std::vector<int32_t> right;
  std::vector<uint64_t> count;  // when the pair was chosen
};

// Word i is data[offsets[i] .. offsets[i + 1]) and occurs counts[i] times.
Learned learn(const uint8_t* data, const int64_t* offsets, const uint64_t* counts, size_t num_words,
              const LearnOptions& options);

}  // namespace tokcore
