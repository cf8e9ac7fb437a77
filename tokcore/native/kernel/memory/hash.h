// DESCRIPTION
// hash_bytes is a 64-bit hash of a byte string. It is the same on every machine and in every release, because
// the partitions of count tables depend on it. Definition (integers modulo 2^64; fold(a, b) = high ^ low half
// of the 128-bit product a * b; oracle: tokcore.reference.reference.hash_bytes):
//   state = size * 0x9E3779B97F4A7C15 + 0xD6E8FEB86659FD93
//   for each 16-byte block (the last one, or the only one of an empty string, padded with zeros),
//   with its halves low and high as little-endian integers:
//     state = fold(low ^ state ^ 0xA0761D6478BD642F, high ^ 0xE7037ED1A0B428DB ^ (state >> 32))
//   hash = fold(state ^ 0x8EBC6AF09C88C6E3, 0x589965CC75374CC3)
// Two multiplications for up to 16 bytes. Does not resist chosen keys. Thread-safe.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "memory/wide.h"

namespace tokcore {

struct Block16 {
  uint64_t low;
  uint64_t high;
};

constexpr uint64_t byte_swapped(uint64_t value) {
  value = (value & 0x00FF00FF00FF00FFu) << 8 | (value >> 8 & 0x00FF00FF00FF00FFu);
  value = (value & 0x0000FFFF0000FFFFu) << 16 | (value >> 16 & 0x0000FFFF0000FFFFu);
  return value << 32 | value >> 32;
}

constexpr uint64_t little_endian(uint64_t value) {
  if constexpr (std::endian::native == std::endian::big) return byte_swapped(value);
  return value;
}

inline uint64_t big_endian(uint64_t value) {
  if constexpr (std::endian::native == std::endian::little) return byte_swapped(value);
  return value;
}

// By a number of bytes: a mask that keeps that many first bytes of a block.
inline constexpr auto kFirstBytes = [] {
  constexpr uint64_t kAll = ~uint64_t{0};
  std::array<Block16, 17> masks{};
  for (size_t size = 0; size <= 16; ++size) {
    masks[size] = {size >= 8 ? kAll : (uint64_t{1} << 8 * size) - 1,
                   size == 16  ? kAll
                   : size <= 8 ? 0
                               : (uint64_t{1} << 8 * (size - 8)) - 1};
  }
  return masks;
}();

// The first `size` (at most 16) bytes at `bytes`, and zeros up to 16. Reads no byte at or after `limit`.
inline Block16 load_block(const uint8_t* bytes, size_t size, const uint8_t* limit) {
  Block16 block{0, 0};
  if (limit - bytes >= 16) {
    std::memcpy(&block, bytes, 16);
  } else if (size != 0) {
    std::memcpy(&block, bytes, size);
  }
  const Block16 mask = kFirstBytes[size];
  return {little_endian(block.low) & mask.low, little_endian(block.high) & mask.high};
}

inline uint64_t fold(uint64_t a, uint64_t b) {
  const Wide128 product = multiply(a, b);
  return product.high ^ product.low;
}

inline uint64_t hash_start(size_t size) {
  return static_cast<uint64_t>(size) * 0x9E3779B97F4A7C15u + 0xD6E8FEB86659FD93u;
}

inline uint64_t hash_step(uint64_t state, Block16 block) {
  return fold(block.low ^ state ^ 0xA0761D6478BD642Fu, block.high ^ 0xE7037ED1A0B428DBu ^ (state >> 32));
}

inline uint64_t hash_end(uint64_t state) { return fold(state ^ 0x8EBC6AF09C88C6E3u, 0x589965CC75374CC3u); }

// limit: at least bytes + size; no byte at or after it is read.
inline uint64_t hash_bytes(const uint8_t* bytes, size_t size, const uint8_t* limit) {
  uint64_t state = hash_start(size);
  for (; size > 16; bytes += 16, size -= 16) state = hash_step(state, load_block(bytes, 16, limit));
  return hash_end(hash_step(state, load_block(bytes, size, limit)));
}

}  // namespace tokcore
