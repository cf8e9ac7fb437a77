// DESCRIPTION
// PieceModel is what Encoder needs of a model: the ids of one pre-token. Immutable once built, so all methods
// are thread-safe; the caller brings the scratch memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "encode/merge_lanes.h"

namespace tokcore {

// Memory that encoding reuses for every piece. One per thread.
struct PieceScratch {
  std::vector<Piece*> waiting;
  std::vector<uint32_t> symbols;
  std::vector<uint32_t> ranks;
  std::vector<uint32_t> previous;
  std::vector<uint32_t> next;
  std::vector<uint64_t> heap;
  std::vector<uint64_t> dead;
  std::vector<uint64_t> known_neighbours;  // see BpeModel::follows()
  std::vector<int32_t> chunk_ids;
  std::vector<double> sums;     // see ByteUnigram, by place in the piece
  std::vector<uint32_t> ended;  // what ends there
};

class PieceModel {
 public:
  // The longest pre-token that can be encoded: positions in it have 32 bits.
  static constexpr size_t kMaxPieceBytes = (size_t{1} << 32) - 2;

  virtual ~PieceModel() = default;

  // Writes the external ids of each piece, 0 < size <= kMaxPieceBytes, at most one for each byte. More pieces
  // at once make each quicker: while one waits for memory, others go on.
  virtual void encode(Piece* pieces, size_t num_pieces, PieceScratch& scratch) const = 0;

  // The end of the part that begins at `begin` of a pre-token too long for an entry of the cache. Parts may
  // be encoded, and remembered, one by one.
  virtual size_t part_end(const uint8_t* text, size_t size, size_t begin) const = 0;

  // All tokens, the most common first as far as ranks tell. is_own: whether the token's bytes encode to it.
  struct Tokens {
    size_t num;
    const uint8_t* data;
    const uint64_t* starts;  // num + 1
    const int32_t* ids;
    const std::vector<bool>& is_own;
  };
  virtual Tokens tokens() const = 0;
};

}  // namespace tokcore
