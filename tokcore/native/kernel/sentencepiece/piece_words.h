// DESCRIPTION
// make_piece_words turns words of UTF-8 into the runs of symbols that pieces are learned from. The symbols
// are the most frequent characters, up to a share of the text. All else divides a word: rarer characters,
// U+001F, and texts that are tokens already. Words with the count 0, with ill-formed bytes, or with U+2585,
// which SentencePiece keeps for itself, take no part. Linear; memory: 4 bytes a character. Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "memory/buffer.h"

namespace tokcore {

struct PieceWords {
  bool overflows = false;  // the characters of all words, times their counts, are more than 2^63 - 1
  std::vector<uint32_t> code_points;  // of each symbol, ascending, so that symbols compare as UTF-8 does
  std::vector<uint64_t> code_point_counts;
  std::vector<uint32_t> by_count;  // the symbols, the most frequent first, then by code point
  Buffer<uint32_t> symbols;
  std::vector<int64_t> offsets{0};  // of run i: symbols[offsets[i] .. offsets[i + 1])
  std::vector<uint64_t> counts;
  uint64_t num_dividers = 0;  // what divides words, times the words' counts
};

// Word i is data[offsets[i] .. offsets[i + 1]) and occurs counts[i] times. reserved: texts that divide words,
// none empty, all different; of several the longest counts. coverage: as SentencePiece compares it.
PieceWords make_piece_words(const uint8_t* data, const int64_t* offsets, const uint64_t* counts,
                            size_t num_words, const std::vector<std::string_view>& reserved, float coverage);

}  // namespace tokcore
