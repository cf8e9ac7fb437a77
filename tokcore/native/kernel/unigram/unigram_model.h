// DESCRIPTION
// UnigramModel cuts text into the pieces whose scores have the highest sum, as SentencePiece does: sums are
// float32 and run from the start of a text; at each place the first of several equal sums wins, and sums
// beyond +-100,000 start again at 0. A character that is no piece is unknown, at the lowest score less 10.
//
// Because of rounding, the cut of a word depends on the sum before it. measure() also says up to which sum
// the cut holds: as long as the second-best cut is worse by more than all rounding can be.
//
// Hugging Face's tokenizers add up otherwise: in float64, and from 0 for each word. See find_word_cuts().
//
// Several texts are given at once, which makes each quicker (see CharacterTrie). Cost: for each character, a
// step for every four pieces that end there. Thread-safe once built.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "sentencepiece/piece_vocabulary.h"
#include "unigram/character_trie.h"

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

  // Texts, and memory that encoding reuses. One per thread.
  struct Scratch {
    size_t num_texts() const { return starts.size() - 1; }
    size_t num_characters(size_t index) const { return starts[index + 1] - starts[index]; }
    // Of the places between characters, which are one more than a text's characters, the first one.
    size_t first_place(size_t index) const { return starts[index] + index; }

    // Of all texts: the numbers of their characters, and the lists of what ends at each.
    std::vector<uint32_t> characters;
    std::vector<uint32_t> ends;
    std::vector<size_t> starts{0};  // where the characters of each text begin, and the end
    std::vector<CharacterTrie::Walker> walkers;
    // Of all texts, by place: the slot of the last piece of the best of what ends there, and how much worse
    // the second-best is.
    std::vector<uint32_t> ended;
    std::vector<float> gaps;
    // Of one text, by place: the best sum of what ends there.
    std::vector<float> sums;
    std::vector<double> exact_sums;
    std::vector<Restart> restarts;
    std::vector<uint32_t> tokens;  // the last first
  };

  // vocabulary: must live as long. False if it is too large. Throws std::bad_alloc.
  bool build(const PieceVocabulary& vocabulary);

  // Forgets the texts. Then add() each, and find_ends() of all. 0 < size < 2^32 - 1.
  static void clear(Scratch& scratch) { scratch.starts.resize(1); }
  void add(const uint8_t* text, size_t size, Scratch& scratch) const;
  void find_ends(Scratch& scratch) const;

  // Cuts a text and writes the numbers of its tokens, at most one for each byte. index: of the text, as it
  // was added. *sum: the scores of what comes before the text; then, its own included.
  size_t encode(size_t index, const uint8_t* text, size_t size, float* sum, Scratch& scratch,
                uint32_t* numbers) const;

  // Cuts all texts as they are cut after a sum of 0, or as Hugging Face's tokenizers cut words: in float64,
  // each by itself. Then measure() each.
  void find_cuts(Scratch& scratch) const;
  void find_word_cuts(Scratch& scratch) const;

  struct Measured {
    size_t count;
    float limit;  // of the absolute sum before the text; below 0 if the cut is never certain
  };

  // Writes the numbers of a text's tokens, and says up to which sum before it the cut holds. The limit is
  // below 0 if neighbours are unknown and no bytes spell them: they become one token, which does not tell how
  // many they are.
  Measured measure(size_t index, const uint8_t* text, size_t size, Scratch& scratch, uint32_t* numbers) const;

  // How far a text of that size can move the sum, at most.
  float reach(size_t size) const { return static_cast<float>(size) * max_score_; }

  // How far a token can move the sum at most, including what rounding adds.
  double step() const { return double{max_score_} + 0.01; }

  // By number: what a token adds to the sum. Of an unknown character that bytes spell, the first byte adds
  // all.
  const float* scores() const { return scores_.data(); }

 private:
  static constexpr uint32_t kUnknown = CharacterTrie::kUnknown;
  static constexpr float kUnknownPenalty = 10.0F;

  static void make_room(Scratch& scratch);
  // offer(width, score, slot): of each piece that ends at a place, the longest first, or of what is unknown.
  template <typename Offer>
  void offer_all(uint32_t list, const Offer& offer) const;
  uint32_t find_best_after_restarts(size_t end, uint32_t list, Scratch& scratch) const;
  struct Written {
    size_t count;
    float gap;        // the least of all places between tokens
    bool is_certain;  // no two unknown characters are neighbours
  };
  // What scratch.ended says, in order.
  Written write(size_t index, const uint8_t* text, size_t size, Scratch& scratch, uint32_t* numbers) const;

  const PieceVocabulary* vocabulary_ = nullptr;
  CharacterTrie trie_;
  std::vector<float> scores_;
  float unknown_score_ = 0;
  double exact_unknown_score_ = 0;
  float max_score_ = 0;  // the highest absolute value
  size_t max_piece_characters_ = 1;
};

}  // namespace tokcore
