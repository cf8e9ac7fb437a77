// DESCRIPTION
// find_seed_pieces lists the runs of two or more symbols that a Unigram model starts from: those that may be
// a piece, occur at least twice, and do not always go on with the same symbol. It sorts all suffixes, cut off
// at the longest piece, one group with the same first symbol at a time. So it sees each such run once, with
// the sum of its words' counts. The result does not depend on the order of words, nor on how often one is
// listed. O(n log n) for n symbols; memory: 8 bytes a symbol, and 16 for each that the most frequent symbol
// begins. Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "learn/piece_limits.h"
#include "sentencepiece/piece_words.h"

namespace tokcore {

struct SeedPiece {
  uint64_t count;
  uint32_t start;  // the piece is symbols[start .. start + size) of the words
  uint32_t size;
};

// The `most` seeds with the highest count times size, the first in the order of symbols where they are equal;
// in this order. min_count: what counts as "twice". Throws std::length_error from 2^32 - 1 symbols on.
std::vector<SeedPiece> find_seed_pieces(const PieceWords& words, const PieceChecker& checker,
                                        uint64_t min_count, size_t most);

}  // namespace tokcore
