// DESCRIPTION
// PieceQueue yields pairs as SentencePiece's BPE does: by count (highest first), then by the characters of
// the text that they make (fewest first), then by this text in the order of UTF-8. Entries may be out of
// date, so the caller compares each one with the table. The order depends only on the entries. Not
// thread-safe.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "learn/pair_table.h"
#include "learn/piece_limits.h"

namespace tokcore {

class PieceQueue {
 public:
  // For symbols below num_symbols, each of which is one character.
  void reset(const PieceChecker* checker, size_t num_symbols) {
    checker_ = checker;
    for (uint32_t i = 0; i < num_symbols; ++i) {
      symbols_.push_back(i);
      starts_.push_back(symbols_.size());
    }
  }

  bool allows(uint32_t left, uint32_t right) const {
    const size_t size = size_of(left) + size_of(right);
    if (size > checker_->max_length()) return false;
    joined_.assign(begin(left), begin(left) + size_of(left));
    joined_.insert(joined_.end(), begin(right), begin(right) + size_of(right));
    return checker_->allows(joined_.data(), size);
  }

  // Call for each merge, in order.
  void add_symbol(uint32_t left, uint32_t right) {
    for (const uint32_t part : {left, right}) {
      for (size_t i = starts_[part], end = starts_[part + 1]; i < end; ++i) symbols_.push_back(symbols_[i]);
    }
    starts_.push_back(symbols_.size());
  }

  void push(Candidate candidate) {
    heap_.push_back(candidate);
    std::push_heap(heap_.begin(), heap_.end(), ComesAfter{this});
  }
  void pop() {
    std::pop_heap(heap_.begin(), heap_.end(), ComesAfter{this});
    heap_.pop_back();
  }

  // The best pair, which stays at the top; nothing if no pair is left.
  std::optional<Candidate> next(PairTable& pairs) {
    while (!heap_.empty()) {
      const Candidate top = heap_.front();
      const PairTable::Pair* const pair = pairs.find(top.key);
      if (pair != nullptr && pair->count == top.count) return top;
      pop();
      if (pair != nullptr) push({pair->count, top.key});
    }
    return std::nullopt;
  }

 private:
  struct ComesAfter {
    const PieceQueue* queue;
    bool operator()(const Candidate& a, const Candidate& b) const {
      return a.count != b.count ? a.count < b.count : queue->is_after(a.key, b.key);
    }
  };

  const uint32_t* begin(uint32_t id) const { return symbols_.data() + starts_[id]; }
  size_t size_of(uint32_t id) const { return starts_[id + 1] - starts_[id]; }
  uint32_t symbol(uint64_t key, size_t i) const {
    const size_t left_size = size_of(left_of(key));
    return i < left_size ? begin(left_of(key))[i] : begin(right_of(key))[i - left_size];
  }
  size_t length(uint64_t key) const { return size_of(left_of(key)) + size_of(right_of(key)); }

  // Whether the text of pair a comes after that of b.
  bool is_after(uint64_t a, uint64_t b) const {
    const size_t size = length(a);
    if (size != length(b)) return size > length(b);
    for (size_t i = 0; i < size; ++i) {
      if (symbol(a, i) != symbol(b, i)) return symbol(a, i) > symbol(b, i);
    }
    return false;
  }

  const PieceChecker* checker_ = nullptr;
  std::vector<Candidate> heap_;
  std::vector<uint32_t> symbols_;  // of token i: those from starts_[i] to before starts_[i + 1]
  std::vector<size_t> starts_{0};
  mutable std::vector<uint32_t> joined_;
};

}  // namespace tokcore
