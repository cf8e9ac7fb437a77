// DESCRIPTION
// CharacterPairs is a set of pairs of characters, kept as bits of their hashes. It may hold more than was put
// in, because hashes collide, and never less. Thread-safe once built.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tokcore {

class CharacterPairs {
 public:
  // Of two characters side by side. Sizes: 1 to 4 bytes.
  static uint64_t hash(const uint8_t* left, size_t left_size, size_t right_size) {
    const uint64_t both = uint64_t{pack(left, left_size)} << 32 | pack(left + left_size, right_size);
    return both * 0x9E3779B97F4A7C15u;
  }

  // The set of these hashes; replaces what it held.
  void build(std::vector<uint64_t> hashes);

  bool may_hold(uint64_t hash) const {
    const uint64_t bit = hash >> shift_;
    return (bits_[bit / 64] >> bit % 64) & 1;
  }

 private:
  static uint32_t pack(const uint8_t* character, size_t size) {
    uint32_t bytes = 0;
    for (size_t i = 0; i < size; ++i) bytes = bytes << 8 | character[i];
    return bytes;
  }

  std::vector<uint64_t> bits_;
  unsigned shift_ = 63;
};

}  // namespace tokcore
