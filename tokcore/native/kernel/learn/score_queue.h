// DESCRIPTION
// ScoreQueue yields pairs by count(ab) / (count(a) count(b)), compared exactly (highest first), then by
// count(ab) (highest first), then by left id, then by right id (lowest first). A merge lowers the counts of
// its parts and so raises the scores of other pairs: all pairs of the two get new entries. An entry is in
// force only if it has the counts of now. The order depends only on the counts. Not thread-safe.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "learn/pair_table.h"
#include "memory/wide.h"

namespace tokcore {

class ScoreQueue {
 public:
  // For symbols with ids below num_ids. No count may pass 2^63 - 1.
  void reset(size_t num_ids) {
    symbol_counts_.assign(num_ids, 0);
    pairs_of_.resize(num_ids);
  }

  uint64_t& count_of(uint32_t symbol) { return symbol_counts_[symbol]; }

  // Call for every pair inserted into the table, once the counts of its symbols are those of now.
  void add(Candidate candidate) {
    push(candidate);
    const uint32_t left = left_of(candidate.key), right = right_of(candidate.key);
    pairs_of_[left].push_back(candidate.key);
    if (right != left) pairs_of_[right].push_back(candidate.key);
  }

  // Call after a merge for each of its two parts.
  void count_changed(uint32_t symbol, PairTable& pairs) {
    std::vector<uint64_t>& keys = pairs_of_[symbol];
    size_t num_kept = 0;
    for (const uint64_t key : keys) {
      const PairTable::Pair* const pair = pairs.find(key);
      if (pair == nullptr) continue;
      keys[num_kept++] = key;
      push({pair->count, key});
    }
    keys.resize(num_kept);
    if (heap_.size() > room_) rebuild(pairs);
  }

  // The best pair, which stays at the top; nothing if no pair is left.
  std::optional<Candidate> next(PairTable& pairs) {
    while (!heap_.empty()) {
      const Entry& top = heap_.front();
      const PairTable::Pair* const pair = pairs.find(top.key);
      if (pair != nullptr && pair->count == top.count && scale_of(top.key) == top.scale)
        return Candidate{top.count, top.key};
      pop();
    }
    return std::nullopt;
  }

  void pop() {
    std::pop_heap(heap_.begin(), heap_.end());
    heap_.pop_back();
  }

 private:
  static constexpr size_t kLeastRoom = size_t{1} << 20;

  struct Entry {
    int64_t count;
    uint64_t key;
    Wide128 scale;  // the product of the counts of the two symbols

    // Whether a comes after b.
    friend bool operator<(const Entry& a, const Entry& b) {
      const Wide192 score_a = multiply(b.scale, static_cast<uint64_t>(a.count));
      const Wide192 score_b = multiply(a.scale, static_cast<uint64_t>(b.count));
      if (score_a != score_b) return score_a < score_b;
      return a.count != b.count ? a.count < b.count : a.key > b.key;
    }
  };

  Wide128 scale_of(uint64_t key) const {
    return multiply(symbol_counts_[left_of(key)], symbol_counts_[right_of(key)]);
  }

  void push(Candidate candidate) {
    heap_.push_back({candidate.count, candidate.key, scale_of(candidate.key)});
    std::push_heap(heap_.begin(), heap_.end());
  }

  // Drops entries that are no longer in force.
  void rebuild(const PairTable& pairs) {
    heap_.clear();
    pairs.for_each_place([this](uint64_t key, int64_t count) {
      if (count > 0) heap_.push_back({count, key, scale_of(key)});
    });
    std::make_heap(heap_.begin(), heap_.end());
    room_ = std::max(kLeastRoom, 4 * heap_.size());
  }

  std::vector<Entry> heap_;
  size_t room_ = kLeastRoom;
  std::vector<uint64_t> symbol_counts_;
  std::vector<std::vector<uint64_t>> pairs_of_;
};

}  // namespace tokcore
