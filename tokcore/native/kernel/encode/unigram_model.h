// DESCRIPTION
// UnigramModel cuts text into the pieces whose scores have the highest sum, as SentencePiece does: sums are
// float32 and run from the start of a text; at each place the first of several equal sums wins, and sums
// beyond +-100,000 start again at 0. A character that is no piece is unknown, at the lowest score less 10.
//
// Because of rounding, the cut of a word depends on the sum before it. measure() also says up to which sum
// the cut holds: as long as the second-best cut is worse by more than all rounding can be.
//
// Hugging Face's tokenizers add up otherwise: in float64, and from 0 for each word. See encode_word().
//
// Cost: for each byte of text, a step for each byte of the pieces that begin there. Thread-safe once built.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "encode/piece_trie.h"
#include "encode/piece_vocabulary.h"

namespace tokcore {

class UnigramModel {
 public:
  static constexpr float kMaxSum = 100000.0F;

  // Memory that encoding reuses. One per thread.
  struct Scratch {
    struct Node {
      float sum;
      uint32_t start;  // kNone: nothing ends here
      uint32_t piece;  // kNone: unknown
    };
    struct MeasuredNode {
      double best, second;
      uint32_t start;
      uint32_t piece;
    };
    std::vector<Node> nodes;
    std::vector<MeasuredNode> measured;
    std::vector<uint32_t> ends;
  };

  // vocabulary: must live as long. Throws std::bad_alloc.
  void build(const PieceVocabulary& vocabulary);

  // Writes the numbers of the tokens of text that comes after the sum *sum, and sets that to the sum behind
  // it. At most one number for each byte. 0 < size < 2^32 - 1.
  size_t encode(const uint8_t* text, size_t size, float* sum, Scratch& scratch, uint32_t* numbers) const;

  struct Measured {
    size_t count;
    float limit;  // of the absolute sum before the text; below 0 if the cut is never certain
  };

  // The same for text that may stand anywhere. The limit is below 0 if neighbours are unknown and no bytes
  // spell them: they become one token, which does not tell how many they are.
  Measured measure(const uint8_t* text, size_t size, Scratch& scratch, uint32_t* numbers) const;

  // The same as Hugging Face's: in float64, for a word by itself.
  size_t encode_word(const uint8_t* text, size_t size, Scratch& scratch, uint32_t* numbers) const;

  // How far a text of that size can move the sum, at most.
  float reach(size_t size) const { return static_cast<float>(size) * max_score_; }

  // By number: what a token adds to the sum. Of an unknown character that bytes spell, the first byte adds
  // all.
  const float* scores() const { return scores_.data(); }

 private:
  static constexpr uint32_t kNone = UINT32_MAX;
  static constexpr float kUnknownPenalty = 10.0F;

  // Offers each piece that text holds at `start`, shortest first, and the character there if it is no piece:
  // offer(where it ends, its number or kNone, its score). Returns the bytes of the character.
  template <typename Offer>
  size_t offer_pieces(const uint8_t* text, size_t size, size_t start, Offer offer) const;
  template <typename Nodes>
  size_t write(const Nodes& nodes, const uint8_t* text, size_t size, Scratch& scratch,
               uint32_t* numbers) const;

  const PieceVocabulary* vocabulary_ = nullptr;
  PieceTrie trie_;
  std::vector<float> scores_;
  float unknown_score_ = 0;
  double exact_unknown_score_ = 0;
  float max_score_ = 0;  // the highest absolute value
};

}  // namespace tokcore
