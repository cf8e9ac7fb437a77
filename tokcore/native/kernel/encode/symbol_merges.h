// DESCRIPTION
// SymbolMerges merges words of symbols: the pair of lowest rank, the leftmost of several, until no pair that
// has a rank is left. Cost: n log n in the length of the word; a scan for short ones. Thread-safe once built,
// with a scratch for each thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "encode/pair_ranks.h"
#include "encode/piece_model.h"

namespace tokcore {

class SymbolMerges {
 public:
  // Merge i, of rank i, makes result[i]; each pair once. Fewer than PairRanks::kNoRank merges, symbols below
  // 2^32 - 257.
  void build(const uint32_t* left, const uint32_t* right, const uint32_t* result, size_t num_merges);
  // Merges scratch.symbols in place.
  void merge(PieceScratch& scratch) const;

 private:
  static constexpr size_t kMaxScanned = 32;

  // PairRanks keeps pairs of bytes apart.
  static uint64_t pair_key(uint32_t left, uint32_t right) { return PairRanks::key(left + 256, right + 256); }
  int32_t find_rank(uint32_t left, uint32_t right, uint32_t* result) const {
    const uint64_t key = pair_key(left, right);
    const size_t slot = merges_.slot_of(key);
    *result = merges_.result(slot);
    return merges_.rank(key, slot);
  }
  void merge_by_scan(std::vector<uint32_t>& symbols) const;
  void merge_by_heap(PieceScratch& scratch) const;

  PairRanks merges_;
};

}  // namespace tokcore
