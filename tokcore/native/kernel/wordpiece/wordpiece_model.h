// DESCRIPTION
// WordpieceModel encodes one pre-token by WordPiece: from its start, the longest token that matches, then the
// longest one that may continue a word, and so on. If nothing matches at one place, or the pre-token has more
// characters than max_characters, all of it becomes the unknown token. Pre-tokens of white space become
// nothing if `drops_space`. Without tokens that continue words, it looks up whole pre-tokens.
//
// With dropout, each token that matches at a place, the longest first, is passed over by chance, but for a
// single character.
//
// Cost: the pre-token's characters times the longest token's at most; linear in the pre-token.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "encode/bpe_model.h"
#include "encode/draws.h"
#include "encode/piece_model.h"

namespace tokcore {

// A vocabulary. Its pointers are only read while the model is built.
struct WordpieceVocabulary {
  const uint8_t* data;
  size_t data_size;
  const int64_t* offsets;  // num_tokens + 1
  size_t num_tokens;
  const int32_t* token_ids;
  const uint8_t* continues;  // by token: 1 if it continues a word, 0 if it begins one
  int32_t unknown_id;
  uint64_t max_characters;  // of a pre-token; 0: no limit
  bool drops_space;
};

class WordpieceModel final : public PieceModel {
 public:
  VocabularyResult build(const WordpieceVocabulary& vocabulary);

  void encode(Piece* pieces, size_t num_pieces, PieceScratch& scratch) const override;
  void encode(Piece& piece, const Chance& dropout, Draws& draws) const;
  size_t part_end(const uint8_t*, size_t size, size_t) const override { return size; }
  Tokens tokens() const override {
    return {ids_.size(), bytes_.data(), starts_.data(), ids_.data(), is_own_};
  }

 private:
  // A trie in one hash table. Node 0 is where words begin, node 1 where they go on.
  class Trie {
   public:
    static constexpr uint32_t kNone = UINT32_MAX;

    void reset(size_t num_bytes);
    uint32_t add(uint32_t node, uint8_t byte);  // the child, made if there is none
    uint32_t child(uint32_t node, uint8_t byte) const {
      const uint64_t edge = uint64_t{node} << 8 | byte;
      for (size_t slot = first_slot(edge);; slot = (slot + 1) & mask_) {
        if (edges_[slot].edge == edge) return edges_[slot].child;
        if (edges_[slot].child == kNone) return kNone;
      }
    }
    int32_t& id(uint32_t node) { return ids_[node]; }
    int32_t id(uint32_t node) const { return ids_[node]; }  // kNoId if no token ends here

   private:
    struct Edge {
      uint64_t edge;
      uint32_t child;
    };
    size_t first_slot(uint64_t edge) const { return (edge * 0x9E3779B97F4A7C15u) >> shift_; }

    std::vector<Edge> edges_;
    std::vector<int32_t> ids_;
    size_t mask_ = 0;
    unsigned shift_ = 63;
  };

  static constexpr int32_t kNoId = -1;

  // choose(whether a match is one character): whether to take it; the longest one is offered first.
  template <typename Choose>
  void encode_choosing(Piece& piece, Choose choose) const;
  template <typename Choose>
  bool match(Piece& piece, Choose choose) const;

  Trie trie_;
  int32_t unknown_id_ = 0;
  uint64_t max_characters_ = 0;
  bool drops_space_ = false;
  // The tokens that begin words, for the cache.
  std::vector<uint8_t> bytes_;
  std::vector<uint64_t> starts_;
  std::vector<int32_t> ids_;
  std::vector<bool> is_own_;
};

}  // namespace tokcore
