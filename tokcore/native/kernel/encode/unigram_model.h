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
// Cost: for each character of text, a step for each byte of the pieces that begin there. Thread-safe once
// built.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "encode/piece_vocabulary.h"
#include "encode/score_trie.h"

namespace tokcore {

class UnigramModel {
 public:
  static constexpr float kMaxSum = 100000.0F;
  // Scores beyond it count as it, so that no sum overflows.
  static constexpr float kMaxScore = 1e33F;

  // Memory that encoding reuses. One per thread.
  struct Scratch {
    // By place in the text: the best sum of what ends there, the second-best, and how the best's last token
    // ends: a unit of the trie, or kUnknown and the bytes of a character.
    std::vector<float> sums;
    std::vector<float> seconds;
    std::vector<uint32_t> ended;
    std::vector<double> exact_sums;
    // What begins at each of several characters, by its bytes: its score and its unit.
    std::vector<float> found_scores;
    std::vector<uint32_t> found_units;
    std::vector<uint32_t> ends;
  };

  // vocabulary: must live as long. False if it is too large. Throws std::bad_alloc.
  bool build(const PieceVocabulary& vocabulary);

  // As many bytes after a text must be readable; what they hold makes no difference.
  static constexpr size_t kPadding = 32;

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
  static constexpr uint32_t kUnknown = UINT32_MAX - 7;
  static constexpr uint32_t kNothing = kUnknown - 1;  // what ends at a place where nothing does yet
  static constexpr float kUnknownPenalty = 10.0F;

  static constexpr size_t kLanes = 4;  // characters whose pieces are looked for at once
  static constexpr size_t kStep = 4;   // places that are offered something at once

  struct Lane {
    size_t start;
    size_t width;  // bytes of the character there; 0 after the end of the text
  };

  // Looks for the pieces that begin at the next characters, side by side, because each step of a search waits
  // for memory. Returns the bytes of the longest.
  size_t find_pieces(const uint8_t* text, size_t size, size_t start, Lane lanes[kLanes],
                     Scratch& scratch) const;
  bool has_character(const Lane& lane, const float* scores, size_t longest) const {
    return lane.width <= longest && scores[lane.width - 1] != ScoreTrie::kNoScore;
  }
  void make_room(size_t size, Scratch& scratch) const;
  size_t write(const uint8_t* text, size_t size, Scratch& scratch, uint32_t* numbers) const;
  size_t size_of(uint32_t ended) const {
    return ended >= kUnknown ? ended - kUnknown : trie_.ended(ended).size;
  }

  const PieceVocabulary* vocabulary_ = nullptr;
  ScoreTrie trie_;
  std::vector<float> scores_;
  float unknown_score_ = 0;
  double exact_unknown_score_ = 0;
  float max_score_ = 0;         // the highest absolute value
  size_t max_piece_bytes_ = 4;  // of a piece, or of an unknown character
  size_t stride_ = kStep;       // the same, as whole steps
};

}  // namespace tokcore
