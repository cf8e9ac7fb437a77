// DESCRIPTION
// PairTable holds, for each pair of neighbouring symbols that may still be merged, its count and the units
// (words or segments of long words) that held it when it came up. A pair's count never rises again after its
// insertion, so pairs that fall below the minimum are forgotten. Not thread-safe. CandidateQueue yields pairs
// by count (highest first), then left id, then right id (lowest first). Entries may be out of date; whoever
// pops one compares it with the table. Its order depends on the entries alone.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "hash.h"

namespace tokcore {

constexpr uint64_t pair_key(uint32_t left, uint32_t right) {
  return static_cast<uint64_t>(left) << 32 | right;
}
constexpr uint32_t left_of(uint64_t key) { return static_cast<uint32_t>(key >> 32); }
constexpr uint32_t right_of(uint64_t key) { return static_cast<uint32_t>(key); }

// A list of unit numbers whose length is known when it is made; up to three need no memory of their own.
class UnitList {
 public:
  UnitList() = default;
  explicit UnitList(uint32_t size) : size_(size) {
    if (size_ > kInline) {
      auto* units = new uint32_t[size_];
      std::memcpy(inline_, &units, sizeof units);
    }
  }
  UnitList(UnitList&& other) noexcept : size_(std::exchange(other.size_, 0)) {
    std::memcpy(inline_, other.inline_, sizeof inline_);
  }
  UnitList& operator=(UnitList&& other) noexcept {
    if (this != &other) {
      clear();
      size_ = std::exchange(other.size_, 0);
      std::memcpy(inline_, other.inline_, sizeof inline_);
    }
    return *this;
  }
  ~UnitList() { clear(); }

  uint32_t size() const { return size_; }
  const uint32_t* begin() const { return const_cast<UnitList*>(this)->begin(); }
  const uint32_t* end() const { return begin() + size_; }
  // Valid as long as the list is neither moved nor cleared.
  uint32_t* begin() { return size_ > kInline ? memory() : inline_; }
  void clear() {
    if (size_ > kInline) delete[] memory();
    size_ = 0;
  }

 private:
  static constexpr uint32_t kInline = 3;
  static_assert(sizeof(uint32_t*) <= kInline * sizeof(uint32_t));

  uint32_t* memory() const {
    uint32_t* units;
    std::memcpy(&units, inline_, sizeof units);
    return units;
  }

  uint32_t size_ = 0;
  uint32_t inline_[kInline] = {};
};

class PairTable {
 public:
  struct Pair {
    uint64_t key = kFree;
    int64_t count = 0;  // 0: forgotten; the place is reused when the table is rebuilt
    UnitList units;
  };

  explicit PairTable(int64_t min_count) : min_count_(min_count), pairs_(kFirstSlots) {}

  // The pair, or null if it is not in the table or was forgotten.
  Pair* find(uint64_t key) {
    for (size_t at = home(key);; at = (at + 1) & (pairs_.size() - 1)) {
      if (pairs_[at].key == key) return pairs_[at].count > 0 ? &pairs_[at] : nullptr;
      if (pairs_[at].key == kFree) return nullptr;
    }
  }

  void prefetch(uint64_t key) const { __builtin_prefetch(&pairs_[home(key)]); }

  // Makes room for that many insertions.
  void reserve(size_t num_insertions) {
    while ((num_used_ + num_insertions) * 4 > pairs_.size() * 3) rebuild(num_insertions);
  }

  // Adds a pair that was never there, with room for its units. There must be room for it; the reference is
  // valid until the next reserve.
  Pair& insert(uint64_t key, int64_t count, uint32_t num_units) {
    ++num_used_;
    size_t at = home(key);
    while (pairs_[at].key != kFree) at = (at + 1) & (pairs_.size() - 1);
    pairs_[at] = Pair{key, count, UnitList(num_units)};
    return pairs_[at];
  }

  // Lowers a pair's count, if it is in the table.
  void lower(uint64_t key, int64_t by) {
    Pair* const pair = find(key);
    if (pair == nullptr) return;
    pair->count -= by;
    if (pair->count < min_count_) forget(*pair);
  }

  // Takes the units of a pair that is about to be merged, and forgets it.
  UnitList take(uint64_t key) {
    Pair& pair = *find(key);
    UnitList units = std::move(pair.units);
    forget(pair);
    return units;
  }

 private:
  static constexpr uint64_t kFree = ~uint64_t{0};
  static constexpr size_t kFirstSlots = 1 << 12;

  size_t home(uint64_t key) const { return fold(key, 0x9E3779B97F4A7C15u) & (pairs_.size() - 1); }

  static void forget(Pair& pair) {
    pair.count = 0;
    pair.units.clear();
  }

  // Drops forgotten pairs; doubles the table unless that made it half empty.
  void rebuild(size_t num_insertions) {
    size_t num_live = 0;
    for (const Pair& pair : pairs_) num_live += pair.count > 0;
    const bool roomy = (num_live + num_insertions) * 2 <= pairs_.size();
    std::vector<Pair> old(roomy ? pairs_.size() : pairs_.size() * 2);
    old.swap(pairs_);
    num_used_ = num_live;
    for (Pair& pair : old) {
      if (pair.count <= 0) continue;
      size_t at = home(pair.key);
      while (pairs_[at].key != kFree) at = (at + 1) & (pairs_.size() - 1);
      pairs_[at] = std::move(pair);
    }
  }

  int64_t min_count_;
  std::vector<Pair> pairs_;
  size_t num_used_ = 0;  // forgotten ones included
};

struct Candidate {
  int64_t count;
  uint64_t key;

  // Whether a is merged later than b.
  friend bool operator<(const Candidate& a, const Candidate& b) {
    return a.count != b.count ? a.count < b.count : a.key > b.key;
  }
};

class CandidateQueue {
 public:
  bool empty() const { return heap_.empty(); }
  const Candidate& top() const { return heap_.front(); }
  void push(Candidate candidate) {
    heap_.push_back(candidate);
    std::push_heap(heap_.begin(), heap_.end());
  }
  void pop() {
    std::pop_heap(heap_.begin(), heap_.end());
    heap_.pop_back();
  }

 private:
  std::vector<Candidate> heap_;
};

}  // namespace tokcore
