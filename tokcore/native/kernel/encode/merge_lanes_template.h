// DESCRIPTION
// The merging of merge_lanes.h, as a template over the vector functions that it needs. Everything has
// internal linkage, because the sources that include it are compiled for different processors.
//
// A step has no branch that depends on text: a mispredicted branch costs as much as the rest of the step.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "encode/merge_lanes.h"

namespace tokcore {
namespace {

constexpr int32_t kNoCandidate = PairRanks::kNoRank << kPositionBits | ((1 << kPositionBits) - 1);

inline int32_t candidate(int32_t rank, std::ptrdiff_t position) {
  return rank << kPositionBits | static_cast<int32_t>(position);
}

// kSize: 16, 32 or 64, the most bytes of a piece; a step costs more for a larger kSize. Vectors has two
// functions on the first kSize candidates and symbols of a lane, which are 32-byte aligned:
//   int32_t lowest<kSize>(candidates)
//   void begin<kSize>(text, size, of_bytes, candidates, symbols)   text: kSize + 1 bytes readable
template <size_t kSize, typename Vectors>
class MergeLanes {
 public:
  explicit MergeLanes(const MergeTables& tables) : tables_(tables) {}

  void run(Piece* const* pieces, size_t num_pieces) {
    Lane* busy[kNumLanes];
    size_t num_busy = 0, next = 0;
    for (; next < num_pieces && num_busy < kNumLanes; ++next, ++num_busy) {
      busy[num_busy] = &lanes_[num_busy];
      start(*busy[num_busy], *pieces[next]);
    }
    while (num_busy > 0) {
      // First all answers, then all steps: a vector that reads candidates right after one of them was written
      // would wait for that write.
      for (size_t i = 0; i < num_busy; ++i) answer(*busy[i]);
      for (size_t i = 0; i < num_busy;) {
        Lane& lane = *busy[i];
        if (advance(lane)) {
          ++i;
        } else {
          finish(lane);
          if (next < num_pieces) {
            start(lane, *pieces[next++]);
            ++i;
          } else {
            busy[i] = busy[--num_busy];
          }
        }
      }
    }
  }

 private:
  static constexpr size_t kNumLanes = 16;
  static constexpr size_t kMargin = 8;

  // A pair whose rank is being prefetched; the next step reads it.
  struct Lookup {
    uint64_t pair;
    size_t slot;
    std::ptrdiff_t position;
  };

  // A symbol stays at the position of its first byte. Position -1 stands for the symbol before the first, and
  // kMaxLaneBytes for the one after the last: that is what counting the zeros of an empty mask gives.
  struct Lane {
    alignas(32) int32_t candidate_memory[kMargin + kMaxLaneBytes + kMargin];
    alignas(32) uint32_t symbol_memory[kMargin + kMaxLaneBytes + kMargin];
    uint64_t alive;  // a bit for each symbol
    Lookup left, right;
    Piece* piece;

    int32_t* candidates() { return candidate_memory + kMargin; }
    uint32_t* symbols() { return symbol_memory + kMargin; }
  };

  void start(Lane& lane, Piece& piece) {
    const size_t size = piece.size;
    lane.piece = &piece;
    lane.alive = ~uint64_t{0} >> (64 - size);
    lane.symbols()[-1] = lane.symbols()[kMaxLaneBytes] = PairRanks::kNoSymbol;
    uint8_t copy[kSize + 1] = {};
    const uint8_t* text = piece.text;
    if (static_cast<size_t>(piece.limit - text) <= kSize) {
      std::memcpy(copy, text, size);
      text = copy;
    }
    Vectors::template begin<kSize>(text, size, tables_.pairs.of_bytes(), lane.candidates(), lane.symbols());
    lane.left = lane.right = ask(PairRanks::kNoSymbol, PairRanks::kNoSymbol, -1);
  }

  void answer(Lane& lane) const {
    answer(lane, lane.left);
    answer(lane, lane.right);
  }

  void answer(Lane& lane, const Lookup& lookup) const {
    const int32_t rank = tables_.pairs.rank(lookup.pair, lookup.slot);
    lane.candidates()[lookup.position] = candidate(rank, lookup.position);
  }

  // Does the next merge of the lane; false if there is none.
  bool advance(Lane& lane) const {
    uint32_t* symbols = lane.symbols();
    int32_t* candidates = lane.candidates();
    const int32_t merge = Vectors::template lowest<kSize>(candidates);
    if (merge >= PairRanks::kNoRank << kPositionBits) return false;
    const std::ptrdiff_t at = merge & (static_cast<int32_t>(kMaxLaneBytes) - 1);
    const auto rank = static_cast<uint32_t>(merge >> kPositionBits);
    const uint32_t symbol = tables_.result_of_rank == nullptr ? 256 + rank : tables_.result_of_rank[rank];
    const uint64_t after = lane.alive & (~uint64_t{1} << at);
    const uint64_t rest = after & (after - 1);
    const uint64_t before = lane.alive & ((uint64_t{1} << at) - 1);
    lane.alive ^= after ^ rest;
    symbols[at] = symbol;
    candidates[std::countr_zero(after)] = kNoCandidate;
    const std::ptrdiff_t next = std::countr_zero(rest), previous = 63 - std::countl_zero(before);
    lane.right = ask(symbol, symbols[next], at);
    lane.left = ask(symbols[previous], symbol, previous);
    return true;
  }

  Lookup ask(uint32_t left, uint32_t right, std::ptrdiff_t position) const {
    const uint64_t pair = PairRanks::key(left, right);
    const size_t slot = tables_.pairs.slot_of(pair);
    tables_.pairs.prefetch(slot);
    return {pair, slot, position};
  }

  void finish(Lane& lane) const {
    size_t count = 0;
    for (uint64_t rest = lane.alive; rest != 0; rest &= rest - 1) {
      const uint32_t symbol = lane.symbols()[std::countr_zero(rest)];
      lane.piece->ids[count++] =
          tables_.is_external && symbol >= 256 ? static_cast<int32_t>(symbol) : tables_.external[symbol];
    }
    lane.piece->count = count;
    lane.piece->starts = lane.alive;
  }

  const MergeTables& tables_;
  Lane lanes_[kNumLanes];
};

template <typename Vectors>
void merge_by_size(const MergeTables& tables, Piece* const* pieces, size_t num_pieces) {
  Piece* sized[3][kMaxPiecesInLanes];
  size_t num_sized[3] = {};
  for (size_t i = 0; i < num_pieces; ++i) {
    const size_t kind = static_cast<size_t>(pieces[i]->size > 16) + static_cast<size_t>(pieces[i]->size > 32);
    sized[kind][num_sized[kind]++] = pieces[i];
  }
  if (num_sized[0] != 0) MergeLanes<16, Vectors>(tables).run(sized[0], num_sized[0]);
  if (num_sized[1] != 0) MergeLanes<32, Vectors>(tables).run(sized[1], num_sized[1]);
  if (num_sized[2] != 0) MergeLanes<64, Vectors>(tables).run(sized[2], num_sized[2]);
}

}  // namespace
}  // namespace tokcore
