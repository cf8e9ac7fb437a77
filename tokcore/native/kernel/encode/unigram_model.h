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
// Cost: for each character of text, a step for each piece that ends there. Thread-safe once built.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "encode/character_trie.h"
#include "encode/piece_vocabulary.h"

namespace tokcore {

class UnigramModel {
 public:
  static constexpr float kMaxSum = 100000.0F;
  // Scores beyond it count as it, so that no sum overflows.
  static constexpr float kMaxScore = 1e33F;

  // A place between characters from which sums start at 0 again, and the sum that was there.
  struct Restart {
    size_t place;
    float sum;
  };

  // Memory that encoding reuses. One per thread.
  struct Scratch {
    std::vector<uint32_t> characters;  // see CharacterTrie::translate()
    // By place between characters: the best sum of what ends there, the second-best, and the unit of
    // the best's last piece, or kUnknown.
    std::vector<float> sums;
    std::vector<float> seconds;
    std::vector<double> exact_sums;
    std::vector<uint32_t> ended;
    std::vector<Restart> restarts;
    std::vector<uint32_t> tokens;  // the last first
  };

  // vocabulary: must live as long. False if it is too large. Throws std::bad_alloc.
  bool build(const PieceVocabulary& vocabulary);

  // Writes the numbers of a text's tokens. *sum: the scores of what comes before the text; then, its own
  // included. At most one number for each byte. 0 < size < 2^32 - 1.
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
  static constexpr uint32_t kUnknown = UINT32_MAX;
  static constexpr float kUnknownPenalty = 10.0F;

  // The best of what ends at a place; of equal sums the first.
  template <typename Sum>
  struct Best {
    Sum sum = -std::numeric_limits<Sum>::infinity();
    uint32_t place = kUnknown;

    void offer(Sum other, uint32_t its_place) {
      if (!(other > sum)) return;
      sum = other;
      place = its_place;
    }
  };

  // Translates a text and makes room. Returns its number of characters.
  size_t begin(const uint8_t* text, size_t size, Scratch& scratch) const;
  // offer(start, score, place): of each piece that ends at a place, the longest first, or of what is unknown.
  // node: see CharacterTrie::next().
  template <typename Offer>
  void offer_all(size_t end, uint32_t node, const Offer& offer) const;
  Best<float> find_best_after_restarts(size_t end, uint32_t node, const Scratch& scratch) const;
  // What scratch.ended says, in order. *is_certain: no two unknown characters are neighbours.
  size_t write(const uint8_t* text, size_t size, size_t num_characters, Scratch& scratch, uint32_t* numbers,
               bool* is_certain) const;

  const PieceVocabulary* vocabulary_ = nullptr;
  CharacterTrie trie_;
  std::vector<float> scores_;
  float unknown_score_ = 0;
  double exact_unknown_score_ = 0;
  float max_score_ = 0;  // the highest absolute value
  size_t max_piece_characters_ = 1;
};

}  // namespace tokcore
