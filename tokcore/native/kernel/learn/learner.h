// DESCRIPTION
// learn() finds BPE merges. Each step takes the pair of neighbouring symbols with the highest count (if
// several are equal, the smaller left id, then the smaller right id) and makes it one symbol everywhere, from
// left to right without overlap. The count of a pair is the sum over words of the word's count times the
// windows of the word that hold the pair ("aaa" has two windows of (a, a)). Ids: 0 to 255 are the bytes in
// the given order, 256 + i is merge i. The result depends only on the sum of counts of each word: not on
// order, repetitions or threads. learn_symbols() does the same for words of any symbols; merges follow these.
//
// Counts of chosen pairs never rise, so a pair that is rarer than the last merge will be is never merged. The
// count of the last merge is guessed while the others are found, and pairs below it are left out. If the
// guess was too high, they are counted and listed again. Not by score, nor by SentencePiece's rules.
//
// Cost: a constant for each replacement, as words of more than 256 symbols are kept in linked segments; O(log
// pairs) to find the pair to merge. Memory: 2 bytes a symbol (4 from 65,536 ids on), 16 a word, 1 to 2 for
// each word and distinct pair in it, 50 for each pair frequent enough to be merged. OPTIMIZATIONS.md says
// what was tried. Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "learn/piece_limits.h"

namespace tokcore {

struct LearnOptions {
  size_t num_merges = 0;                // at most 2^31 - 256
  uint64_t min_count = 0;               // a pair with a lower count, or with count 0, is not merged
  size_t max_token_bytes = 0;           // longer tokens are not made; 0: no limit
  size_t threads = 1;                   // at least 1
  const uint8_t* id_of_byte = nullptr;  // 256 ids, a permutation; of learn()
  // Take the pair with the highest count(ab) / (count(a) count(b)) instead, compared exactly; if several are
  // equal, the one with the highest count, then as above. Symbols count wherever they stand, and a merge
  // lowers the counts of its parts.
  bool by_score = false;
  // Merge as SentencePiece does: of several pairs with the highest count the one that makes the shortest
  // text, then the first text in the order of symbols; only what this allows. Not with by_score.
  const PieceChecker* pieces = nullptr;
  int64_t* merges_done = nullptr;  // rises while merges are found, for other threads to read
  // One thread does a merge that touches fewer units (words, or segments of long words) than this.
  size_t min_parallel_units = 8192;
  // Symbols take two bytes as long as ids are below this; at most 2^16.
  size_t max_narrow_ids = 65536;
  // The last count is guessed when this many merges are found, and again when there are twice as many.
  size_t first_guess = 16;
  uint64_t guessed_count = 0;  // if it is not 0: what is guessed
};

enum class LearnStatus : uint8_t {
  kOk,  // if there are fewer merges than asked for, no pair was left
  // The windows of all words (by score their symbols), times the words' counts, are more than 2^63 - 1.
  kCountOverflow,
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

// Word i is symbols[offsets[i] .. offsets[i + 1]), ids below symbol_bytes.size(), and merge i makes the id
// symbol_bytes.size() + i. symbol_bytes: what max_token_bytes counts, for each symbol.
Learned learn_symbols(const uint32_t* symbols, const int64_t* offsets, const uint64_t* counts,
                      size_t num_words, std::vector<size_t> symbol_bytes, const LearnOptions& options);

}  // namespace tokcore
