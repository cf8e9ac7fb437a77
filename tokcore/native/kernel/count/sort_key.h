// DESCRIPTION
// SortKey is what rows are sorted by: the first 15 bytes of the key, zeros behind its end, and in the last
// byte its length, or 255 for a key of more than 15 bytes; as two big-endian integers. Comparing them is
// comparing the keys by memcmp (a prefix before what it is a prefix of), except that long keys may be equal
// in it and yet differ.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "memory/hash.h"

namespace tokcore {

struct SortKey {
  static constexpr size_t kBytes = 15;

  uint64_t high;
  uint64_t low;

  // Of the key at `bytes`; reads no byte at or after `limit`.
  static SortKey of(const uint8_t* bytes, size_t size, const uint8_t* limit) {
    const Block16 block = load_block(bytes, std::min(size, kBytes), limit);
    return {byte_swapped(block.low), byte_swapped(block.high) | (size <= kBytes ? size : 255)};
  }

  // The same of a key of at most 15 bytes, which it holds whole.
  static SortKey of_short(const uint8_t* bytes, size_t size, const uint8_t* limit) {
    const Block16 block = load_block(bytes, size, limit);
    return {byte_swapped(block.low), byte_swapped(block.high) | size};
  }

  bool is_whole() const { return static_cast<uint8_t>(low) <= kBytes; }
  friend bool operator==(const SortKey& a, const SortKey& b) { return a.high == b.high && a.low == b.low; }
  friend bool operator<(const SortKey& a, const SortKey& b) {
    // Without branches: which of two keys is smaller cannot be predicted.
#ifdef __SIZEOF_INT128__
    __extension__ using Wide = unsigned __int128;
    return (static_cast<Wide>(a.high) << 64 | a.low) < (static_cast<Wide>(b.high) << 64 | b.low);
#else
    return static_cast<bool>((a.high < b.high) | ((a.high == b.high) & (a.low < b.low)));
#endif
  }

  // Writes the 15 bytes and one more, of which as many are the key as its length says.
  void write(uint8_t* place) const {
    const uint64_t words[] = {big_endian(high), big_endian(low)};
    std::memcpy(place, words, sizeof words);
  }
};

// memcmp order of any two keys.
inline bool key_before(const uint8_t* a, size_t a_size, const uint8_t* b, size_t b_size) {
  const size_t common = std::min(a_size, b_size);
  const int order = common == 0 ? 0 : std::memcmp(a, b, common);
  return order != 0 ? order < 0 : a_size < b_size;
}

}  // namespace tokcore
