// DESCRIPTION
// Cuts finds places in a pre-token that no merge crosses, so that the parts before and after can be encoded
// separately: between two characters outside of ASCII that no token holds side by side. In scripts of which a
// vocabulary has few tokens, that is nearly everywhere. Thread-safe once built.
//
// A token that crosses the border between two characters holds both of them, or only an end of the first, or
// only a beginning of the second. Tokens of the first kind are remembered by a hash of both characters, the
// others by the two bytes at the border. A collision of hashes only loses a cut.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "encode/character_pairs.h"

namespace tokcore {

class Cuts {
 public:
  // data: the tokens side by side; starts: num_tokens + 1.
  void build(const uint8_t* data, const uint64_t* starts, size_t num_tokens);

  // The first cut after `begin`, where a character starts; `size` if there is none.
  size_t next(const uint8_t* text, size_t size, size_t begin) const {
    for (size_t left = begin; left < size;) {
      if (text[left] < 0x80) {
        left = ascii_end(text, size, left);
        continue;
      }
      const size_t left_size = character_size(text + left, size - left);
      const size_t right = left + left_size;
      if (left_size > 1 && right < size) {
        const size_t right_size = character_size(text + right, size - right);
        if (right_size > 1 && !crossed(text + left, left_size, right_size)) return right;
      }
      left = right;
    }
    return size;
  }

 private:
  // The size of the character of two to four bytes at text; 1 for ASCII, parts of characters and malformed
  // bytes.
  static size_t character_size(const uint8_t* text, size_t size) {
    const size_t wanted = text[0] < 0xC2   ? 1
                          : text[0] < 0xE0 ? 2
                          : text[0] < 0xF0 ? 3
                          : text[0] < 0xF5 ? 4
                                           : 1;
    if (wanted > size) return 1;
    for (size_t i = 1; i < wanted; ++i) {
      if ((text[i] & 0xC0) != 0x80) return 1;
    }
    return wanted;
  }

  static size_t ascii_end(const uint8_t* text, size_t size, size_t at) {
    for (uint64_t eight; at + sizeof(eight) <= size; at += sizeof(eight)) {
      std::memcpy(&eight, text + at, sizeof(eight));
      if ((eight & 0x8080808080808080u) != 0) break;
    }
    while (at < size && text[at] < 0x80) ++at;
    return at;
  }

  static size_t border(const uint8_t* right) { return static_cast<size_t>(right[-1]) << 8 | right[0]; }

  bool crossed(const uint8_t* text, size_t left_size, size_t right_size) const {
    const size_t at = border(text + left_size);
    const bool is_border = (borders_[at / 64] >> at % 64) & 1;
    return is_border | pairs_.may_hold(CharacterPairs::hash(text, left_size, right_size));
  }

  std::vector<uint64_t> borders_;  // a bit for each pair of bytes
  CharacterPairs pairs_;
};

}  // namespace tokcore
