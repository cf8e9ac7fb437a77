// DESCRIPTION
// Merges short pieces of text by scan: symbols stay where their first byte is, and the lowest of all
// candidates, a rank with the position of its pair, is the next merge. Several pieces take turns, a merge
// each, so that the lookups of one are on their way from memory while the others go on. Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>

#include "encode/pair_ranks.h"

namespace tokcore {

// A pre-token to encode. limit: the end of what may be read. ids: room for one id a byte. count: how many
// came out. starts: a bit for each byte that a token begins with, if lanes merged it.
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

// What merging looks up. Tokens have numbers of their own inside, ranks have no gaps.
struct MergeTables {
  const PairRanks& pairs;
  const uint32_t* result_of_rank;  // nullptr: 256 + rank
  const int32_t* external;         // ids by number
  bool is_external;                // numbers from 256 on are ids
};

// Encodes pieces of 1 to kMaxLaneBytes bytes by merging alone.
using MergeInLanes = void(const MergeTables& tables, Piece* const* pieces, size_t num_pieces);
MergeInLanes merge_in_lanes_portable;
MergeInLanes merge_in_lanes_avx2;  // only where scanner.h says that the processor can run it

}  // namespace tokcore
