// DESCRIPTION
// CharacterPairs is a set of pairs of characters, kept as bits of their hashes. It may hold more than was put
// in, because hashes collide, and never less. Thread-safe once built.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "memory/hash.h"

namespace tokcore {

class CharacterPairs {
 public:
  // A character of 1 to 4 bytes as a number: its first byte is the lowest.
  static uint32_t pack(const uint8_t* character, size_t size) {
    uint32_t bytes = 0;
    for (size_t i = size; i-- > 0;) bytes = bytes << 8 | character[i];
    return bytes;
  }
  // The same if four bytes may be read.
  static uint32_t pack_padded(const uint8_t* character, size_t size) {
    uint64_t bytes = 0;
    std::memcpy(&bytes, character, 4);
    return static_cast<uint32_t>(little_endian(bytes)) & UINT32_MAX >> (32 - 8 * size);
  }

  // Of two characters side by side, packed.
  static uint64_t hash(uint32_t left, uint32_t right) {
    return (uint64_t{left} << 32 | right) * 0x9E3779B97F4A7C15u;
  }

  // The set of these hashes; replaces what it held.
  void build(std::vector<uint64_t> hashes);

  bool may_hold(uint64_t hash) const {
    const uint64_t bit = hash >> shift_;
    return (bits_[bit / 64] >> bit % 64) & 1;
  }

 private:
  std::vector<uint64_t> bits_;
  unsigned shift_ = 63;
};

}  // namespace tokcore
