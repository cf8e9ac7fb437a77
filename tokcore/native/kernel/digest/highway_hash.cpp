#include "digest/highway_hash.h"

#include <bit>

namespace tokcore {
namespace {

constexpr size_t kPacketBytes = 32;
constexpr int kLastRounds = 4;
constexpr size_t kLanes = 4;
using Lanes = std::array<uint64_t, kLanes>;

// Digits of pi.
constexpr Lanes kFirst = {0xdbe6d5d5fe4cce2f, 0xa4093822299f31d0, 0x13198a2e03707344, 0x243f6a8885a308d3};
constexpr Lanes kSecond = {0x3bd39e10cb0ef593, 0xc0acf169b5f18a8c, 0xbe5466cf34e90c6c, 0x452821e638d01377};

// Byte i of a pair of lanes after the merge is byte kZipped[i] before it. Bytes of the middle of a product,
// which depend on most of its bits, go where a lane is weak.
constexpr int kZipped[16] = {3, 12, 2, 5, 14, 1, 15, 0, 11, 4, 10, 13, 9, 6, 8, 7};

uint64_t load(const uint8_t* bytes) {
  uint64_t value = 0;
  for (int i = 0; i < 8; ++i) value |= static_cast<uint64_t>(bytes[i]) << (8 * i);
  return value;
}

// Half 0 or 1 of a pair of lanes, merged.
template <int kHalf>
uint64_t zip(uint64_t low, uint64_t high) {
  uint64_t merged = 0;
  for (int i = 0; i < 8; ++i) {
    const int from = kZipped[8 * kHalf + i];
    merged |= ((from < 8 ? low >> (8 * from) : high >> (8 * (from - 8))) & 0xff) << (8 * i);
  }
  return merged;
}

class State {
 public:
  explicit State(const HighwayKey& key) : multiplier0_(kFirst), multiplier1_(kSecond) {
    for (size_t i = 0; i < kLanes; ++i) {
      value0_[i] = kFirst[i] ^ key[i];
      value1_[i] = kSecond[i] ^ std::rotl(key[i], 32);
    }
  }

  void take(const uint8_t* packet) {
    take(Lanes{load(packet), load(packet + 8), load(packet + 16), load(packet + 24)});
  }

  // The last bytes, fewer than a packet, at least one.
  void take_rest(const uint8_t* bytes, size_t num_bytes) {
    const auto num = static_cast<uint32_t>(num_bytes);
    for (uint64_t& value : value0_) value += (static_cast<uint64_t>(num) << 32) + num;
    for (uint64_t& value : value1_) {
      const uint32_t low = std::rotl(static_cast<uint32_t>(value), static_cast<int>(num));
      const uint32_t high = std::rotl(static_cast<uint32_t>(value >> 32), static_cast<int>(num));
      value = static_cast<uint64_t>(high) << 32 | low;
    }
    uint8_t packet[kPacketBytes] = {};
    const size_t words = num_bytes & ~size_t{3}, odd = num_bytes & 3;
    for (size_t i = 0; i < words; ++i) packet[i] = bytes[i];
    if (num_bytes & 16) {
      for (size_t i = 0; i < 4; ++i) packet[28 + i] = bytes[num_bytes - 4 + i];
    } else if (odd != 0) {
      packet[16] = bytes[words];
      packet[17] = bytes[words + (odd >> 1)];
      packet[18] = bytes[words + odd - 1];
    }
    take(packet);
  }

  uint64_t finish() {
    for (int round = 0; round < kLastRounds; ++round) {
      take(Lanes{std::rotl(value0_[2], 32), std::rotl(value0_[3], 32), std::rotl(value0_[0], 32),
                 std::rotl(value0_[1], 32)});
    }
    return value0_[0] + value1_[0] + multiplier0_[0] + multiplier1_[0];
  }

 private:
  void take(const Lanes& packet) {
    for (size_t i = 0; i < kLanes; ++i) {
      value1_[i] += multiplier0_[i] + packet[i];
      multiplier0_[i] ^= (value1_[i] & 0xffffffff) * (value0_[i] >> 32);
      value0_[i] += multiplier1_[i];
      multiplier1_[i] ^= (value0_[i] & 0xffffffff) * (value1_[i] >> 32);
    }
    add_zipped(value1_, value0_);
    add_zipped(value0_, value1_);
  }

  static void add_zipped(const Lanes& from, Lanes& to) {
    for (size_t i = 0; i < kLanes; i += 2) {
      to[i] += zip<0>(from[i], from[i + 1]);
      to[i + 1] += zip<1>(from[i], from[i + 1]);
    }
  }

  Lanes value0_, value1_, multiplier0_, multiplier1_;
};

}  // namespace

uint64_t highway_hash(const HighwayKey& key, const uint8_t* data, size_t num_bytes) {
  State state(key);
  const size_t rest = num_bytes % kPacketBytes;
  for (size_t at = 0; at + kPacketBytes <= num_bytes; at += kPacketBytes) state.take(data + at);
  if (rest != 0) state.take_rest(data + num_bytes - rest, rest);
  return state.finish();
}

}  // namespace tokcore
