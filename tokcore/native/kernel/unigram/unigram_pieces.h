// DESCRIPTION
// UnigramPieces are the pieces of a Unigram model while it is learned: their texts, their probabilities, and
// a trie to find them. Texts are codes: a byte for each of the most frequent symbols, two or three for
// others, so that a trie of bytes takes few steps. Thread-safe while nothing changes it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "sentencepiece/piece_trie.h"

namespace tokcore {

// The code of each symbol.
class SymbolCodes {
 public:
  // by_count: all symbols, the most frequent first.
  explicit SymbolCodes(const std::vector<uint32_t>& by_count);

  void append(const uint32_t* symbols, size_t size, std::vector<uint8_t>* out) const;
  void decode(std::string_view text, std::vector<uint32_t>* symbols) const;

  // The bytes of the code that begins so.
  static size_t size_at(const uint8_t* text) {
    return *text < kFirstOfTwo ? 1 : *text < kFirstOfThree ? 2 : 3;
  }

 private:
  static constexpr uint8_t kFirstOfTwo = 192,
                           kFirstOfThree = 236;  // 192 and 44 * 256 symbols; then 20 * 65536

  const std::vector<uint32_t>& by_count_;
  std::vector<uint32_t> rank_;
};

class UnigramPieces {
 public:
  static constexpr int kScoreBits = 28;  // scores are multiples of 2^-28

  size_t size() const { return starts_.size() - 1; }
  std::string_view text(size_t piece) const {
    return {reinterpret_cast<const char*>(codes_.data()) + starts_[piece],
            starts_[piece + 1] - starts_[piece]};
  }

  void add(const SymbolCodes& codes, const uint32_t* symbols, size_t num_symbols);

  // Call when all are added or some were dropped.
  void build_trie();
  const PieceTrie& trie() const { return trie_; }

  // weights: of each piece, 0 or positive. The probability of a piece is its weight divided by their sum; one
  // with the weight 0 takes no part.
  void set_shares(const std::vector<double>& weights);
  // scores: logarithms of the pieces' probabilities. alive: whether a piece takes part; the scores of others
  // mean nothing.
  void set_scores(std::vector<double> scores, std::vector<uint8_t> alive);
  // Keeps these pieces, which must take part, and numbers them in this order.
  void keep(const std::vector<uint32_t>& kept);

  bool alive(size_t piece) const { return alive_[piece] != 0; }
  size_t num_alive() const;
  double score(size_t piece) const { return scores_[piece]; }
  double probability(size_t piece) const { return probabilities_[piece]; }
  int64_t fixed_score(size_t piece) const { return fixed_scores_[piece]; }
  double least_score() const { return least_score_; }
  // The first piece that takes part; 0 if none does. SentencePiece counts unknown characters as this one
  // while it learns, and so misses pieces less if their characters have dropped out.
  uint32_t first() const { return first_; }
  // Of a character that is no piece.
  double unknown_probability() const { return unknown_probability_; }
  int64_t unknown_fixed_score() const { return unknown_fixed_score_; }
  double unknown_score() const { return least_score_ - kUnknownPenalty; }

 private:
  static constexpr double kUnknownPenalty = 10;

  void follow_scores();

  std::vector<uint8_t> codes_;
  std::vector<size_t> starts_{0};
  std::vector<double> scores_;
  std::vector<double> probabilities_;
  std::vector<int64_t> fixed_scores_;
  std::vector<uint8_t> alive_;
  uint32_t first_ = 0;
  double least_score_ = 0;
  double unknown_probability_ = 0;
  int64_t unknown_fixed_score_ = 0;
  PieceTrie trie_;
};

}  // namespace tokcore
