#include "encode/symbol_merges.h"

#include <algorithm>
#include <functional>

namespace tokcore {
namespace {

constexpr uint32_t kNone = UINT32_MAX;

}  // namespace

void SymbolMerges::build(const uint32_t* left, const uint32_t* right, const uint32_t* result,
                         size_t num_merges) {
  std::vector<PairRanks::Entry> entries(num_merges);
  for (size_t i = 0; i < num_merges; ++i)
    entries[i] = {pair_key(left[i], right[i]), static_cast<int32_t>(i), result[i]};
  merges_.build(entries);
}

void SymbolMerges::merge(PieceScratch& scratch) const {
  if (scratch.symbols.size() <= kMaxScanned) {
    merge_by_scan(scratch.symbols);
  } else {
    merge_by_heap(scratch);
  }
}

void SymbolMerges::merge_by_scan(std::vector<uint32_t>& symbols) const {
  while (symbols.size() > 1) {
    int32_t best = PairRanks::kNoRank;
    size_t place = 0;
    uint32_t merged = 0;
    for (size_t i = 0; i + 1 < symbols.size(); ++i) {
      uint32_t result;
      const int32_t rank = find_rank(symbols[i], symbols[i + 1], &result);
      if (rank >= best) continue;
      best = rank;
      place = i;
      merged = result;
    }
    if (best == PairRanks::kNoRank) return;
    symbols[place] = merged;
    symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(place) + 1);
  }
}

void SymbolMerges::merge_by_heap(PieceScratch& scratch) const {
  std::vector<uint32_t>& symbols = scratch.symbols;
  const size_t count = symbols.size();
  std::vector<uint32_t>&previous = scratch.previous, &next = scratch.next, &ranks = scratch.ranks;
  std::vector<uint64_t>& heap = scratch.heap;
  constexpr auto kNoRank = static_cast<uint32_t>(PairRanks::kNoRank);
  previous.resize(count);
  next.resize(count);
  ranks.assign(count, kNoRank);
  heap.clear();
  // Notes the pair of a symbol and the next one.
  const auto look_up = [&](uint32_t left) {
    uint32_t result;
    ranks[left] = static_cast<uint32_t>(find_rank(symbols[left], symbols[next[left]], &result));
    if (ranks[left] == kNoRank) return false;
    heap.push_back(uint64_t{ranks[left]} << 32 | left);
    return true;
  };
  const auto add = [&](uint32_t left) {
    if (look_up(left)) std::push_heap(heap.begin(), heap.end(), std::greater<>());
  };
  for (size_t i = 0; i < count; ++i) {
    previous[i] = static_cast<uint32_t>(i) - 1;
    next[i] = i + 1 < count ? static_cast<uint32_t>(i) + 1 : kNone;
  }
  for (size_t i = 0; i + 1 < count; ++i) look_up(static_cast<uint32_t>(i));
  std::make_heap(heap.begin(), heap.end(), std::greater<>());
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), std::greater<>());
    const uint64_t top = heap.back();
    heap.pop_back();
    const auto left = static_cast<uint32_t>(top);
    // A symbol that is gone has no pair; one whose neighbour changed has another.
    if (ranks[left] != top >> 32) continue;
    const uint32_t right = next[left];
    uint32_t result;
    find_rank(symbols[left], symbols[right], &result);
    symbols[left] = result;
    ranks[left] = ranks[right] = kNoRank;
    next[left] = next[right];
    if (next[left] != kNone) previous[next[left]] = left;
    if (previous[left] != kNone) add(previous[left]);
    if (next[left] != kNone) add(left);
  }
  size_t left = 0;
  for (uint32_t i = 0; i != kNone; i = next[i]) symbols[left++] = symbols[i];
  symbols.resize(left);
}

}  // namespace tokcore
