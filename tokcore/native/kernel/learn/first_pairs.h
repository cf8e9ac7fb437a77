// DESCRIPTION
// DensePairs and HashedPairs hold what is known of the pairs of neighbours before anything is merged: their
// counts and units. The first has a place for each pair of few symbols, the second for each pair that occurs.
// at() is O(1). Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "learn/pair_table.h"
#include "memory/hash.h"

namespace tokcore {

struct FirstPair {
  int64_t count = 0;
  UnitListSize size;
  UnitList::Cursor cursor;  // where the next unit is listed; nowhere if the pair is not kept
};

class DensePairs {
 public:
  explicit DensePairs(size_t num_symbols) : num_symbols_(num_symbols), pairs_(num_symbols * num_symbols) {}

  FirstPair& at(uint32_t left, uint32_t right) { return pairs_[left * num_symbols_ + right]; }
  void prefetch(uint32_t, uint32_t) const {}

  // Calls action(left, right, pair) for every pair; those that do not occur have the count 0.
  template <typename Action>
  void for_each(Action action) const {
    const FirstPair* pair = pairs_.data();
    for (uint32_t left = 0; left < num_symbols_; ++left) {
      for (uint32_t right = 0; right < num_symbols_; ++right) action(left, right, *pair++);
    }
  }

 private:
  size_t num_symbols_;
  std::vector<FirstPair> pairs_;
};

class HashedPairs {
 public:
  explicit HashedPairs(size_t) : places_(kFirstPlaces) {}

  // Adds the pair if it is not there. Valid until the next pair is added.
  FirstPair& at(uint32_t left, uint32_t right) {
    const uint64_t key = pair_key(left, right);
    size_t place = find(key);
    if (places_[place].key == kFree) {
      if ((num_used_ + 1) * 3 > places_.size() * 2) {
        grow();
        place = find(key);
      }
      ++num_used_;
      places_[place].key = key;
    }
    return places_[place].pair;
  }

  void prefetch(uint32_t left, uint32_t right) const {
    __builtin_prefetch(&places_[home(pair_key(left, right))], 1);
  }

  // Calls action(left, right, pair) for every pair, in no order.
  template <typename Action>
  void for_each(Action action) const {
    for (const Place& place : places_) {
      if (place.key != kFree) action(left_of(place.key), right_of(place.key), place.pair);
    }
  }

 private:
  static constexpr uint64_t kFree = ~uint64_t{0};
  static constexpr size_t kFirstPlaces = 1024;  // always a power of two

  struct Place {
    uint64_t key = kFree;
    FirstPair pair;
  };

  size_t home(uint64_t key) const {
    return fold(key ^ 0xA0761D6478BD642Fu, 0x9E3779B97F4A7C15u) & (places_.size() - 1);
  }
  size_t find(uint64_t key) const {
    const size_t mask = places_.size() - 1;
    size_t place = home(key);
    while (places_[place].key != key && places_[place].key != kFree) place = (place + 1) & mask;
    return place;
  }

  void grow() {
    std::vector<Place> old(2 * places_.size());
    old.swap(places_);
    for (const Place& place : old) {
      if (place.key != kFree) places_[find(place.key)] = place;
    }
  }

  std::vector<Place> places_;
  size_t num_used_ = 0;
};

}  // namespace tokcore
