// DESCRIPTION
// Merges short pieces of text. A symbol stays at the position of its first byte. A candidate is a rank and
// the position of its pair; the lowest candidate is the next merge. Several pieces take turns, one merge
// each, so that the lookups of one come from memory while the others go on. Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>

#include "encode/pair_ranks.h"

namespace tokcore {

// A pre-token to encode. limit: the end of readable memory. ids: room for one id per byte. count: the number
// of ids written. starts: a bit for each byte where a token begins, if lanes merged the piece.
struct Piece {
  const uint8_t* text;
  size_t size;
  const uint8_t* limit;
  int32_t* ids;
  size_t count;
  uint64_t starts;
};

constexpr unsigned kPositionBits = 6;
constexpr size_t kMaxLaneBytes = size_t{1} << kPositionBits;  // the longest piece
constexpr size_t kMaxPiecesInLanes = 1024;                    // at once

// The tables that merging reads. Token numbers and ranks are those of BpeModel.
struct MergeTables {
  const PairRanks& pairs;
  const uint32_t* result_of_rank;  // nullptr: 256 + rank
  const int32_t* external;         // ids by number
  bool is_external;                // whether token numbers from 256 on are their ids
};

// Encodes pieces of 1 to kMaxLaneBytes bytes by merging alone.
using MergeInLanes = void(const MergeTables& tables, Piece* const* pieces, size_t num_pieces);
MergeInLanes merge_in_lanes_portable;
MergeInLanes merge_in_lanes_avx2;  // only if implementations() in scanner.h lists it

}  // namespace tokcore
