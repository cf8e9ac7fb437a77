// DESCRIPTION
// make_character_words turns words of UTF-8 into words of symbols for learn_symbols: a symbol for each
// character that occurs, for where it begins a word, and one for each that goes on with a word. Words of
// white space, of ill-formed bytes and with the count 0 take no part. No token may begin a word and be
// spelled like one that goes on with it: so what follows the prefix ## at the beginning of a word is a word
// of its own, all of whose characters go on with one. Linear; memory: 4 bytes a character. Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "memory/buffer.h"

namespace tokcore {

struct CharacterWords {
  // Code points, ascending: those of symbols 0 to n - 1, and of the symbols from n on.
  std::vector<uint32_t> first;
  std::vector<uint32_t> further;
  Buffer<uint32_t> symbols;
  std::vector<int64_t> offsets{0};  // of word i: symbols[offsets[i] .. offsets[i + 1])
  std::vector<uint64_t> counts;

  // The bytes of each symbol's character.
  std::vector<size_t> symbol_bytes() const;
};

// Word i is data[offsets[i] .. offsets[i + 1]) and occurs counts[i] times.
CharacterWords make_character_words(const uint8_t* data, const int64_t* offsets, const uint64_t* counts,
                                    size_t num_words);

}  // namespace tokcore
