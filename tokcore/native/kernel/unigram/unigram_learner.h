// DESCRIPTION
// learn_unigram finds the pieces of a Unigram model by expectation maximisation, as SentencePiece does: it
// starts from many, estimates their probabilities twice, drops the quarter that the text misses least, and so
// on until there are about as many as wanted. All sums over words are integers, and logarithms are
// exact_math's: the result is the same bytes for any number of threads, order of words and machine. Time: a
// walk through the text for each round, of which there are three for each quarter dropped. Memory: 2 bytes a
// character, 70 for each seed and 16 more for it and each thread. Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "learn/piece_limits.h"
#include "sentencepiece/piece_words.h"

namespace tokcore {

struct UnigramOptions {
  size_t num_pieces = 0;           // the most to return; at least the symbols of the words
  size_t num_before_last_cut = 0;  // the rounds end when no more are left
  size_t num_seeds = 1'000'000;    // besides the symbols
  double scale = 1;                // what one occurrence adds to the words' counts
  uint64_t min_seed_count = 2;     // on the scale of the counts
  size_t threads = 1;              // at least 1
  int64_t* rounds_done = nullptr;  // rises with each round, for other threads to read; may be null
};

struct LearnedPiece {
  std::vector<uint32_t> symbols;
  float score;
};

// The pieces, the highest score first, then in the order of symbols. Each symbol is one of them.
std::vector<LearnedPiece> learn_unigram(const PieceWords& words, const PieceChecker& checker,
                                        const UnigramOptions& options);

}  // namespace tokcore
