// DESCRIPTION
// PairTable holds each pair of neighbouring symbols that may still be merged: its count, and the units (words
// or segments of long words) that held it when it was inserted. A pair's count never rises after its
// insertion, so pairs that fall below the minimum, which may rise, are forgotten. CandidateQueue yields pairs
// by count (highest first), then left id, then right id (lowest first). Entries may be out of date, so the
// caller compares each one with the table. The order depends only on the entries. Neither is thread-safe.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "memory/buffer.h"
#include "memory/hash.h"

namespace tokcore {

constexpr uint64_t pair_key(uint32_t left, uint32_t right) {
  return static_cast<uint64_t>(left) << 32 | right;
}
constexpr uint32_t left_of(uint64_t key) { return static_cast<uint32_t>(key >> 32); }
constexpr uint32_t right_of(uint64_t key) { return static_cast<uint32_t>(key); }

// How long a list of ascending units is, and how many bytes it takes: the first number and the differences
// of the others, in 7 bits a byte.
struct UnitListSize {
  uint32_t num_units = 0;
  uint32_t num_bytes = 0;   // without the first number; less than 2^32, as the differences add up to less
  uint32_t first_unit = 0;  // if num_units is not 0
  uint32_t last_unit = 0;

  // Adds a unit that is not before the last one; false if it is that one.
  [[gnu::always_inline]] bool add(uint32_t unit) {
    if (num_units == 0) {
      first_unit = unit;
    } else if (unit == last_unit) {
      return false;
    } else {
      num_bytes += bytes_of(unit - last_unit);
    }
    last_unit = unit;
    ++num_units;
    return true;
  }
  // Adds a list of later units.
  void add(const UnitListSize& more) {
    if (more.num_units == 0) return;
    if (num_units == 0) {
      *this = more;
      return;
    }
    num_bytes += bytes_of(more.first_unit - last_unit) + more.num_bytes;
    num_units += more.num_units;
    last_unit = more.last_unit;
  }
  size_t total_bytes() const { return num_units == 0 ? 0 : size_t{num_bytes} + bytes_of(first_unit); }

  static uint32_t bytes_of(uint32_t number) {
    return (static_cast<uint32_t>(std::bit_width(number | 1)) + 6) / 7;
  }
};

// A list of ascending unit numbers, packed; a short one is in the list itself.
class UnitList {
 public:
  // Writes a list from its start.
  struct Cursor {
    uint8_t* at = nullptr;
    uint32_t last_unit = 0;

    [[gnu::always_inline]] void add(uint32_t unit) {
      uint32_t difference = unit - std::exchange(last_unit, unit);
      for (; difference >= 0x80; difference >>= 7) *at++ = static_cast<uint8_t>(difference | 0x80);
      *at++ = static_cast<uint8_t>(difference);
    }
  };

  UnitList() = default;
  explicit UnitList(const UnitListSize& size) : size_(size.num_units) {
    if (size.total_bytes() > kInline) {
      auto* bytes = new uint8_t[size.total_bytes()];
      std::memcpy(bytes_, &bytes, sizeof bytes);
      bytes_[kInline] = 1;
    }
  }
  UnitList(UnitList&& other) noexcept { take(other); }
  UnitList& operator=(UnitList&& other) noexcept {
    if (this != &other) {
      clear();
      take(other);
    }
    return *this;
  }
  ~UnitList() { clear(); }

  uint32_t size() const { return size_; }
  // Valid until the list is moved or cleared.
  Cursor begin() { return {bytes(), 0}; }
  std::vector<uint32_t> unpacked() const {
    std::vector<uint32_t> units;
    units.reserve(size_);
    const uint8_t* at = const_cast<UnitList*>(this)->bytes();
    for (uint32_t i = 0, unit = 0; i < size_; ++i) {
      uint32_t byte = *at++, difference = byte & 0x7f;
      for (uint32_t shift = 7; byte >= 0x80; shift += 7) {
        byte = *at++;
        difference |= (byte & 0x7f) << shift;
      }
      units.push_back(unit += difference);
    }
    return units;
  }
  void prefetch() { __builtin_prefetch(bytes()); }
  void clear() {
    if (bytes_[kInline] != 0) delete[] bytes();
    bytes_[kInline] = 0;
    size_ = 0;
  }

 private:
  static constexpr size_t kInline = 11;

  uint8_t* bytes() {
    if (bytes_[kInline] == 0) return bytes_;
    uint8_t* bytes;
    std::memcpy(&bytes, bytes_, sizeof bytes);
    return bytes;
  }
  void take(UnitList& other) {
    size_ = std::exchange(other.size_, 0);
    std::memcpy(bytes_, other.bytes_, sizeof bytes_);
    other.bytes_[kInline] = 0;
  }

  uint32_t size_ = 0;
  uint8_t bytes_[kInline + 1] = {};  // the list, or where it is; the last byte says which
};

class PairTable {
 public:
  struct Pair {
    uint64_t key = kFree;
    int64_t count = 0;  // 0: forgotten; rebuilding the shard frees the place
    UnitList units;
  };

  explicit PairTable(int64_t min_count) : min_count_(min_count) {
    for (Shard& shard : shards_) shard.pairs.resize(kFirstPlaces);
  }

  // The pair, or null if it is not in the table or was forgotten.
  [[gnu::always_inline]] Pair* find(uint64_t key) {
    const uint64_t hash = hash_of(key);
    Shard& shard = shard_of(hash);
    for (size_t at = shard.home(hash);; at = shard.after(at)) {
      Pair& pair = shard.pairs[at];
      if (pair.key == key) return pair.count > 0 ? &pair : nullptr;
      if (pair.key == kFree) return nullptr;
    }
  }

  void prefetch(uint64_t key) const {
    const uint64_t hash = hash_of(key);
    const Shard& shard = shards_[hash & (kNumShards - 1)];
    __builtin_prefetch(&shard.pairs[shard.home(hash)], 1);
  }

  // Adds a pair that was never in the table.
  void insert(uint64_t key, int64_t count, UnitList units) {
    const uint64_t hash = hash_of(key);
    Shard& shard = shard_of(hash);
    if (shard.num_used * kMaxLoadOf >= shard.pairs.size() * kMaxLoad) shard.rebuild();
    ++shard.num_used;
    shard.free_place(hash) = Pair{key, count, std::move(units)};
  }

  // Lowers the count of a pair, if the table has it.
  void lower(uint64_t key, int64_t by) {
    Pair* const pair = find(key);
    if (pair == nullptr) return;
    pair->count -= by;
    if (pair->count < min_count_) forget(*pair);
  }

  // Forgets a pair that is about to be merged, and returns its units.
  UnitList take(uint64_t key) {
    Pair& pair = *find(key);
    UnitList units = std::move(pair.units);
    forget(pair);
    return units;
  }

  // Raises the minimum, and forgets the pairs below it.
  void forget_below(int64_t min_count) {
    min_count_ = min_count;
    for (Shard& shard : shards_) {
      for (Pair& pair : shard.pairs) {
        if (pair.count > 0 && pair.count < min_count) forget(pair);
      }
    }
  }

  // Calls action(key, count) for each pair, and with a count of 0 for free places. Skipping those would need
  // a branch that cannot be predicted; the action's own condition on the count mostly can.
  template <typename Action>
  void for_each_place(Action action) const {
    for (const Shard& shard : shards_) {
      for (const Pair& pair : shard.pairs) action(pair.key, pair.count);
    }
  }

 private:
  static constexpr uint64_t kFree = ~uint64_t{0};
  static constexpr size_t kNumShards = 64;  // each grows alone, so that growing needs little memory
  static constexpr size_t kFirstPlaces = 64, kManyPairs = size_t{1} << 15;
  static constexpr size_t kMaxLoad = 3, kMaxLoadOf = 4;

  struct Shard {
    Buffer<Pair> pairs;
    size_t num_used = 0;  // including forgotten pairs

    size_t home(uint64_t hash) const { return (hash >> 32) * pairs.size() >> 32; }
    size_t after(size_t at) const { return at + 1 == pairs.size() ? 0 : at + 1; }
    Pair& free_place(uint64_t hash) {
      size_t at = home(hash);
      while (pairs[at].key != kFree) at = after(at);
      return pairs[at];
    }
    // Drops forgotten pairs and makes room for twice as many, or for two fifths more if that is much memory.
    void rebuild() {
      num_used = 0;
      for (const Pair& pair : pairs) num_used += pair.count > 0;
      const size_t room = num_used < kManyPairs ? num_used * 3 : num_used * 2 - num_used / 8;
      Buffer<Pair> old(std::max(kFirstPlaces, room));
      old.swap(pairs);
      for (Pair& pair : old) {
        if (pair.count > 0) free_place(hash_of(pair.key)) = std::move(pair);
      }
    }
  };

  static uint64_t hash_of(uint64_t key) { return fold(key ^ 0xA0761D6478BD642Fu, 0x9E3779B97F4A7C15u); }
  Shard& shard_of(uint64_t hash) { return shards_[hash & (kNumShards - 1)]; }

  static void forget(Pair& pair) {
    pair.count = 0;
    pair.units.clear();
  }

  int64_t min_count_;
  std::array<Shard, kNumShards> shards_;
};

struct Candidate {
  int64_t count;
  uint64_t key;

  // Whether a comes after b.
  friend bool operator<(const Candidate& a, const Candidate& b) {
    return a.count != b.count ? a.count < b.count : a.key > b.key;
  }
};

// Holds only candidates with a count of at least threshold_, so that its heap stays small. When it is empty,
// it lowers the threshold and collects candidates from the table.
class CandidateQueue {
 public:
  // Whether there is a candidate; then top() is the next one.
  bool ready(const PairTable& pairs) {
    if (heap_.empty()) refill(pairs);
    return !heap_.empty();
  }
  const Candidate& top() const { return heap_.front(); }
  // Call for every pair inserted into the table, and for every popped pair that stays in it with a lower
  // count.
  void push(Candidate candidate) {
    if (candidate.count < threshold_) return;
    heap_.push_back(candidate);
    std::push_heap(heap_.begin(), heap_.end());
  }
  void pop() {
    std::pop_heap(heap_.begin(), heap_.end());
    heap_.pop_back();
  }

 private:
  // Call when all pairs are below the threshold: collects pairs within a third of it, or of the highest count
  // if that is lower.
  void refill(const PairTable& pairs) {
    const int64_t highest = collect(pairs, threshold_ - 1);
    if (heap_.empty() && highest != 0) collect(pairs, highest);
    std::make_heap(heap_.begin(), heap_.end());
  }

  // Collects pairs within a third of `limit`; returns the highest count of all pairs.
  int64_t collect(const PairTable& pairs, int64_t limit) {
    threshold_ = std::max<int64_t>(1, limit - limit / 3);
    int64_t highest = 0;
    pairs.for_each_place([&, threshold = threshold_](uint64_t key, int64_t count) {
      highest = std::max(highest, count);
      if (count >= threshold) [[unlikely]]
        heap_.push_back({count, key});
    });
    return highest;
  }

  std::vector<Candidate> heap_;
  int64_t threshold_ = std::numeric_limits<int64_t>::max();
};

}  // namespace tokcore
