// DESCRIPTION
// SymbolBpe encodes one pre-token by BPE of symbols that are not the 256 bytes: characters, or bytes, that
// are other symbols at the beginning or at the end of a pre-token. What is no symbol becomes those of its
// bytes if all of them have one, else the unknown symbol, else nothing. Then the pair of lowest rank is
// merged, the leftmost of several, until no pair is left.
//
// As Hugging Face's tokenizers does it: an unknown symbol is written when the next symbol of a character, or
// the next unknown character, comes, so that it stands after the bytes that are between them.
//
// Cost: n log n in the length of the pre-token; a scan for short ones.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "encode/bpe_model.h"
#include "encode/piece_model.h"
#include "encode/symbol_merges.h"
#include "memory/number_table.h"

namespace tokcore {

// A vocabulary. Symbols are places in token_ids. Its pointers are only read while the model is built.
struct SymbolVocabulary {
  const int32_t* token_ids;
  size_t num_symbols;
  // What characters become. places: 0 of one that is a pre-token alone, 1 at the beginning, 2 within, 3 at
  // the end. characters: code points, or bytes.
  const uint32_t* characters;
  const uint8_t* places;
  const uint32_t* symbols;
  size_t num_characters;
  bool bytewise;
  const int32_t* byte_symbols;  // 256, -1 where there is none; null if no character is spelled by its bytes
  int32_t unknown;              // -1: none
  bool fuses_unknown;           // unknown characters side by side become one
  // Merges, first merged first, each pair once.
  const uint32_t* left;
  const uint32_t* right;
  const uint32_t* result;
  size_t num_merges;
  // Pre-tokens that become a symbol without merging: symbol whole_symbols[i] is whole_data[whole_offsets[i]
  // ..].
  const uint8_t* whole_data;
  size_t whole_data_size;
  const int64_t* whole_offsets;
  const uint32_t* whole_symbols;
  size_t num_whole;
};

class SymbolBpe final : public PieceModel {
 public:
  VocabularyResult build(const SymbolVocabulary& vocabulary);

  void encode(Piece* pieces, size_t num_pieces, PieceScratch& scratch) const override;
  size_t part_end(const uint8_t*, size_t size, size_t) const override { return size; }
  Tokens tokens() const override { return {0, nullptr, starts_.data(), nullptr, is_own_}; }

 private:
  static uint64_t character_key(uint32_t character, unsigned place) {
    return uint64_t{character} << 2 | place;
  }

  void encode(Piece& piece, PieceScratch& scratch) const;
  void split(const Piece& piece, std::vector<uint32_t>& symbols) const;
  bool spell_bytes(const uint8_t* text, size_t size, std::vector<uint32_t>& symbols) const;

  std::vector<int32_t> external_;
  NumberTable characters_;
  std::vector<int32_t> byte_symbols_;
  SymbolMerges merges_;
  std::string whole_data_;
  std::unordered_map<std::string_view, uint32_t> whole_;
  bool bytewise_ = false;
  int32_t unknown_ = -1;
  bool fuses_unknown_ = false;
  // None that the cache should know before it has met them.
  std::vector<uint64_t> starts_{0};
  std::vector<bool> is_own_;
};

}  // namespace tokcore
