// DESCRIPTION
// SampledUnigram cuts text into pieces by chance: a cut has a probability in proportion to the product of its
// pieces' weights. Sums of the weights of all cuts run from the start, then pieces are drawn from the end.
// Neighbours that are unknown are one token. Weights and sums are float64 beside powers of two, so that they
// neither vanish nor overflow; sums are made in a fixed order.
//
// Cost: for each byte of text, a step for each byte of the pieces that end there, twice. Thread-safe once
// built.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "encode/draws.h"
#include "sentencepiece/piece_trie.h"

namespace tokcore {

class SampledUnigram {
 public:
  // Memory that encoding reuses. One per thread.
  struct Scratch {
    struct Edge {
      uint32_t start;
      uint32_t piece;  // kUnknown: a character that is no piece
      double weight;
      int32_t scale;  // weight is to be multiplied by 2^(200 scale)
    };
    std::vector<double> sums;
    std::vector<int64_t> scales;  // as for weights
    std::vector<Edge> edges;
    std::vector<double> shares;
    std::vector<Edge> cut;
    std::vector<uint32_t> ends;
  };

  // Where a text is cut for sure: nowhere, or before each U+2581.
  enum class Words : uint8_t { kOne, kEverySpace };

  // texts of pieces: not empty, all different, well-formed UTF-8. weights: from 2^-500 to 2^500, each to be
  // multiplied by 2^(200 scale); one more of both is the unknown character's. scales: from -2^30 to 2^30.
  // byte_ids: 256 that spell unknown text, or nullptr. fuses: unknown text on both sides of a cut is one
  // token, too. False if two pieces are equal, or one is empty.
  bool build(const uint8_t* data, const int64_t* offsets, const int32_t* ids, const double* weights,
             const int32_t* scales, size_t num_pieces, int32_t unknown_id, const int32_t* byte_ids,
             Words words, bool fuses);

  // Appends the ids of a normalized text, and returns in how many words it was cut. size < 2^32 - 1.
  size_t encode(const uint8_t* text, size_t size, Draws& draws, Scratch& scratch,
                std::vector<int32_t>* ids) const;

 private:
  static constexpr uint32_t kUnknown = UINT32_MAX;

  void encode_word(const uint8_t* text, size_t size, Draws& draws, Scratch& scratch, bool* was_unknown,
                   std::vector<int32_t>* ids) const;
  // Fills scratch.edges with the pieces that end there, the first to begin first.
  void find_edges(const uint8_t* text, size_t size, size_t end, Scratch& scratch) const;

  PieceTrie trie_;  // of pieces written backwards
  std::vector<int32_t> ids_;
  std::vector<double> weights_;  // the last one is the unknown character's
  std::vector<int32_t> scales_;
  int32_t unknown_id_ = 0;
  std::vector<int32_t> byte_ids_;
  Words words_ = Words::kOne;
  bool fuses_ = false;
};

}  // namespace tokcore
