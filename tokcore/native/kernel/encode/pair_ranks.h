// DESCRIPTION
// PairRanks is the table of a vocabulary's merges: (left, right) -> rank. A pair has one place where it can
// be (a perfect hash, found when the table is built), so that a lookup is two loads without a branch; it may
// be taken apart into finding the place, which can be prefetched, and reading it. All of it lies in one
// block, in large pages where there are any: in small ones, finding the page costs more than reading.
// Thread-safe once built.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "memory/hash.h"
#include "memory/zeroed_memory.h"

namespace tokcore {

class PairRanks {
 public:
  static constexpr int32_t kNoRank = (1 << 25) - 1;  // all bits set; there are fewer ranks
  static constexpr uint32_t kNoSymbol = UINT32_MAX;  // no pair has it

  struct Entry {
    uint64_t key;
    int32_t rank;
  };

  static uint64_t key(uint32_t left, uint32_t right) { return uint64_t{left} << 32 | right; }

  // Of several entries with the same key the last one counts. Throws std::bad_alloc.
  void build(const std::vector<Entry>& entries);

  // kNoRank if there is no such pair.
  int32_t find(uint32_t left, uint32_t right) const {
    if ((left | right) < 256) return of_bytes_[left << 8 | right];
    const uint64_t pair = key(left, right);
    return rank(pair, slot_of(pair));
  }

  // 256 x 256: of pairs of bytes, by left << 8 | right.
  const int32_t* of_bytes() const { return of_bytes_; }

  // The same in steps, for pairs of which not both are bytes.
  size_t slot_of(uint64_t pair) const {
    const uint64_t hash = hash_of(pair);
    const uint64_t shift = shifts_[hash >> bucket_shift_];
    return (hash ^ shift * 0xD6E8FEB86659FD93u) & mask_;
  }
  void prefetch(size_t slot) const { __builtin_prefetch(&entries_[slot]); }
  int32_t rank(uint64_t pair, size_t slot) const {
    const Entry& entry = entries_[slot];
    // No conditional, which compilers make a branch of, and which is hard to predict.
    const int32_t differs = -static_cast<int32_t>(entry.key != pair);
    return entry.rank | (differs & kNoRank);
  }

 private:
  bool try_build(const std::vector<Entry>& entries);
  uint64_t hash_of(uint64_t pair) const { return fold(pair ^ seed_, 0x9E3779B97F4A7C15u); }

  ZeroedMemory memory_;
  Entry* entries_ = nullptr;     // mask_ + 1
  int32_t* of_bytes_ = nullptr;  // 256 x 256
  uint16_t* shifts_ = nullptr;   // by the hash's upper bits, what keeps the pairs that share them apart
  uint64_t seed_ = 0;
  uint64_t mask_ = 0;
  unsigned bucket_shift_ = 63;
};

}  // namespace tokcore
