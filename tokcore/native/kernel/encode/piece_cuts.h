// DESCRIPTION
// PieceCuts finds places in a text that no piece crosses: between two characters that no piece holds side by
// side. Unlike Cuts, it also looks within ASCII, where such a place is mostly before a punctuation mark. The
// text before such a place and the text after it can be encoded apart. Thread-safe once built.
#pragma once

#include <cstddef>
#include <cstdint>

#include "encode/character_pairs.h"
#include "encode/piece_vocabulary.h"

namespace tokcore {

class PieceCuts {
 public:
  void build(const PieceVocabulary& vocabulary);

  // The first such place after `begin`, where a character begins; `size` if there is none. The three bytes
  // after the text may be read, too.
  size_t next(const uint8_t* text, size_t size, size_t begin) const {
    size_t width = character_bytes(text + begin, size - begin);
    uint32_t left = CharacterPairs::pack_padded(text + begin, width);
    for (size_t at = begin + width; at < size; at += width) {
      width = character_bytes(text + at, size - at);
      const uint32_t right = CharacterPairs::pack_padded(text + at, width);
      if (!is_crossed(left, right)) return at;
      left = right;
    }
    return size;
  }

 private:
  // Of packed characters. A collision of hashes only loses a place.
  bool is_crossed(uint32_t left, uint32_t right) const {
    if ((left | right) < 0x80) return (ascii_[left][right / 64] >> right % 64) & 1;
    return pairs_.may_hold(CharacterPairs::hash(left, right));
  }

  uint64_t ascii_[128][2] = {};  // a bit for each two characters of ASCII
  CharacterPairs pairs_;         // of two others
};

}  // namespace tokcore
