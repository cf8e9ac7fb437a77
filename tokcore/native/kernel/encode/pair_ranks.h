// DESCRIPTION
// PairRanks is the table of a vocabulary's merges: (left, right) -> rank, and a result beside it. A perfect
// hash, found when the table is built, gives each pair the one place where it can be, so a lookup is two
// loads without a branch. A lookup can be split into finding the place, which can be prefetched, and reading
// it. The table is one block, in large pages where the system has them: with small pages, a TLB miss costs
// more than the read. Thread-safe once built.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "memory/hash.h"
#include "memory/zeroed_memory.h"

namespace tokcore {

class PairRanks {
 public:
  static constexpr int32_t kNoRank = (1 << 25) - 1;  // all bits set; a vocabulary has fewer ranks
  static constexpr uint32_t kNoSymbol = UINT32_MAX;  // in no pair

  struct Entry {
    uint64_t key;
    int32_t rank;
    uint32_t result = 0;
  };

  static uint64_t key(uint32_t left, uint32_t right) { return uint64_t{left} << 32 | right; }

  // If several entries have the same key, the last one counts. Pairs of two bytes have ranks alone. Throws
  // std::bad_alloc.
  void build(const std::vector<Entry>& entries);

  // kNoRank if there is no such pair.
  int32_t find(uint32_t left, uint32_t right) const {
    if ((left | right) < 256) return of_bytes_[left << 8 | right];
    const uint64_t pair = key(left, right);
    return rank(pair, slot_of(pair));
  }

  // The ranks of pairs of bytes, 256 x 256, by left << 8 | right.
  const int32_t* of_bytes() const { return of_bytes_; }

  // find() in steps, for pairs that are not two bytes.
  size_t slot_of(uint64_t pair) const {
    const uint64_t hash = hash_of(pair);
    const uint64_t shift = shifts_[hash >> bucket_shift_];
    return (hash ^ shift * 0xD6E8FEB86659FD93u) & mask_;
  }
  void prefetch(size_t slot) const { __builtin_prefetch(&entries_[slot]); }
  int32_t rank(uint64_t pair, size_t slot) const {
    const Entry& entry = entries_[slot];
    // Not a conditional: compilers would make it a branch, which is hard to predict.
    const int32_t differs = -static_cast<int32_t>(entry.key != pair);
    return entry.rank | (differs & kNoRank);
  }
  // Of a pair that has a rank.
  uint32_t result(size_t slot) const { return entries_[slot].result; }

 private:
  bool try_build(const std::vector<Entry>& entries);
  uint64_t hash_of(uint64_t pair) const { return fold(pair ^ seed_, 0x9E3779B97F4A7C15u); }

  ZeroedMemory memory_;
  Entry* entries_ = nullptr;     // mask_ + 1
  int32_t* of_bytes_ = nullptr;  // 256 x 256
  uint16_t* shifts_ = nullptr;   // by the upper bits of a hash: separates the pairs that share them
  uint64_t seed_ = 0;
  uint64_t mask_ = 0;
  unsigned bucket_shift_ = 63;
};

}  // namespace tokcore
