// DESCRIPTION
// PieceCuts finds places in a text that no piece crosses: between two characters that no piece holds side by
// side. Unlike Cuts, it also looks within ASCII, where such a place is mostly before a punctuation mark. The
// text before such a place and the text after it can be encoded apart. Thread-safe once built.
#pragma once

#include <cstddef>
#include <cstdint>

#include "encode/character_pairs.h"
#include "sentencepiece/piece_vocabulary.h"

namespace tokcore {

class PieceCuts {
 public:
  void build(const PieceVocabulary& vocabulary);

  // The first such place after `begin`, where a character begins; `size` if there is none.
  size_t next(const uint8_t* text, size_t size, size_t begin) const {
    size_t left = begin, right = begin + character_bytes(text + begin, size - begin);
    while (right < size) {
      const size_t end = right + character_bytes(text + right, size - right);
      if (!is_crossed(text, left, right, end)) return right;
      left = right;
      right = end;
    }
    return size;
  }

 private:
  // A collision of hashes only loses a place.
  bool is_crossed(const uint8_t* text, size_t left, size_t right, size_t end) const {
    if ((text[left] | text[right]) < 0x80)
      return (ascii_[text[left]][text[right] / 64] >> text[right] % 64) & 1;
    return pairs_.may_hold(CharacterPairs::hash(text + left, right - left, end - right));
  }

  uint64_t ascii_[128][2] = {};  // a bit for each two characters of ASCII
  CharacterPairs pairs_;         // of two others
};

}  // namespace tokcore
