// DESCRIPTION
// SortKey orders rows. It holds the first 15 bytes of the key, padded with zeros, and in the last byte the
// key's length, or 255 for more than 15 bytes, as two big-endian integers. Their order is the memcmp order of
// the keys (a prefix first), except that different long keys may have equal sort keys. Thread-safe.
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

  // The sort key of the key at `bytes`; reads no byte at or after `limit`.
  static SortKey of(const uint8_t* bytes, size_t size, const uint8_t* limit) {
    const Block16 block = load_block(bytes, std::min(size, kBytes), limit);
    return {byte_swapped(block.low), byte_swapped(block.high) | (size <= kBytes ? size : 255)};
  }

  // The same for a key of at most 15 bytes.
  static SortKey of_short(const uint8_t* bytes, size_t size, const uint8_t* limit) {
    const Block16 block = load_block(bytes, size, limit);
    return {byte_swapped(block.low), byte_swapped(block.high) | size};
  }

  bool is_whole() const { return static_cast<uint8_t>(low) <= kBytes; }
  friend bool operator==(const SortKey& a, const SortKey& b) { return a.high == b.high && a.low == b.low; }
  friend bool operator<(const SortKey& a, const SortKey& b) {
    // No branches: which of two keys is smaller cannot be predicted.
#ifdef __SIZEOF_INT128__
    __extension__ using Wide = unsigned __int128;
    return (static_cast<Wide>(a.high) << 64 | a.low) < (static_cast<Wide>(b.high) << 64 | b.low);
#else
    return static_cast<bool>((a.high < b.high) | ((a.high == b.high) & (a.low < b.low)));
#endif
  }

  // Writes 16 bytes, which begin with the key if it is not a long one.
  void write(uint8_t* place) const {
    const uint64_t words[] = {big_endian(high), big_endian(low)};
    std::memcpy(place, words, sizeof words);
  }
};

// Whether key a comes before key b in memcmp order.
inline bool key_before(const uint8_t* a, size_t a_size, const uint8_t* b, size_t b_size) {
  const size_t common = std::min(a_size, b_size);
  const int order = common == 0 ? 0 : std::memcmp(a, b, common);
  return order != 0 ? order < 0 : a_size < b_size;
}

}  // namespace tokcore
