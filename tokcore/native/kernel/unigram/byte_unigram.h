// DESCRIPTION
// ByteUnigram encodes one pre-token by the byte strings whose scores have the highest sum. Every byte is one
// of them, so no text is unknown. Sums are float64 and begin at 0 for each pre-token; at each place the first
// of several equal sums wins, which is that of the longest last token. So do Hugging Face's tokenizers.
//
// Cost: for each byte of text, a step for each byte of the tokens that begin there. Thread-safe once built.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "encode/bpe_model.h"
#include "encode/piece_model.h"
#include "unigram/score_trie.h"

namespace tokcore {

// A vocabulary. Its pointers are only read while the model is built.
struct ByteUnigramVocabulary {
  const uint8_t* data;
  size_t data_size;
  const int64_t* offsets;  // num_tokens + 1
  size_t num_tokens;
  const int32_t* token_ids;
  const double* scores;  // kMaxScore at most, either way
};

class ByteUnigram final : public PieceModel {
 public:
  static constexpr double kMaxScore = 1e290;  // so that no sum overflows

  VocabularyResult build(const ByteUnigramVocabulary& vocabulary);

  void encode(Piece* pieces, size_t num_pieces, PieceScratch& scratch) const override;
  size_t part_end(const uint8_t*, size_t size, size_t) const override { return size; }
  Tokens tokens() const override {
    return {ids_.size(), bytes_.data(), starts_.data(), ids_.data(), is_own_};
  }

 private:
  void encode(Piece& piece, PieceScratch& scratch) const;

  ScoreTrie trie_;
  std::vector<double> scores_;  // by the place of a unit: of the token that ends there
  std::vector<uint8_t> bytes_;
  std::vector<uint64_t> starts_;
  std::vector<int32_t> ids_;
  std::vector<bool> is_own_;
};

}  // namespace tokcore
