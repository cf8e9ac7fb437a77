// DESCRIPTION
// CharacterBpe encodes text by SentencePiece's BPE: the characters, and user-defined pieces as they are, are
// merged two by two; the pair whose text is the piece of the highest score is merged first, the leftmost of
// several. In the end a piece that is marked as unused falls into the two parts that it was last seen as, and
// what is no piece is unknown.
//
// Short texts that are given together are merged side by side, a merge of each in turn, so that the pairs of
// one come from memory while others go on.
//
// Cost: n log n in the length of the text; a scan of a small array for short texts. Thread-safe once built.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "encode/pair_ranks.h"
#include "memory/number_table.h"
#include "sentencepiece/piece_trie.h"
#include "sentencepiece/piece_vocabulary.h"

namespace tokcore {

// Memory that CharacterBpe reuses. One per thread.
struct CharacterBpeScratch {
  std::vector<uint32_t> symbols;
  std::vector<uint32_t> starts;  // where each begins, and the end
  std::vector<uint32_t> ranks;   // of the pair of each symbol and the next one
  std::vector<uint32_t> results;
  std::vector<uint32_t> previous;
  std::vector<uint32_t> next;
  std::vector<uint64_t> heap;
  std::vector<std::pair<uint32_t, uint32_t>> seen_parts;  // by piece
  std::vector<uint32_t> seen;                             // the pieces of which they are known
  std::vector<uint32_t> lane_texts;                       // which text is in which lane
};

// Merges that a caller lists, first merged first: of each pair, the places of its pieces in the list of
// pieces, and of the piece that they become.
struct PieceMerges {
  const uint32_t* left;
  const uint32_t* right;
  const uint32_t* result;
  size_t count;
};

class CharacterBpe {
 public:
  // vocabulary, user_defined: must live as long. False if it is too large. Throws std::bad_alloc.
  bool build(const PieceVocabulary& vocabulary, const PieceTrie& user_defined);

  // The same with listed merges instead of scores. No piece is unused or user-defined.
  bool build(const PieceVocabulary& vocabulary, const PieceTrie& user_defined, const PieceMerges& merges);

  static constexpr size_t kNeedsText = SIZE_MAX;

  // Writes the numbers of the tokens, at most one for each byte, and returns how many. is_text: this is all
  // of a text. Of a part, kNeedsText comes back if the rest of the text may matter, which is so if a piece
  // that is marked as unused can be seen as two different pairs. 0 < size < 2^32 - 1.
  size_t encode(const uint8_t* text, size_t size, bool is_text, CharacterBpeScratch& scratch,
                uint32_t* numbers) const;

  // A part of a text: the numbers of its tokens, as encode() writes them, and how many.
  struct Text {
    const uint8_t* text;
    size_t size;
    uint32_t* numbers;
    size_t count;
  };
  // The same for many parts.
  void encode_all(Text* texts, size_t num_texts, CharacterBpeScratch& scratch) const;

 private:
  static constexpr uint32_t kNone = UINT32_MAX;
  static constexpr uint32_t kStays = UINT32_MAX - 1;  // a user-defined piece of the text: never merged
  static constexpr size_t kMaxScanned = 64;
  static constexpr size_t kMaxLaneBytes = 18;
  static constexpr size_t kNumLanes = 32;
  static constexpr int kMaxDepth = 100;

  void build_symbols(const PieceVocabulary& vocabulary, const PieceTrie& user_defined);
  void build_merges(std::vector<PairRanks::Entry> merges);
  uint32_t symbol_of(const uint8_t* character, size_t size) const;
  static constexpr uint32_t kNoRank = static_cast<uint32_t>(PairRanks::kNoRank);

  // Of two symbols that are merged: the rank, the lowest of which is merged first, and the piece that they
  // become. Others have kNoRank. Without listed merges, equal scores have equal ranks.
  struct Merge {
    uint32_t rank;
    uint32_t result;
  };
  // Symbols count from 256 in keys, because PairRanks keeps pairs of bytes apart. kNone and kStays wrap to
  // numbers below 256, which no pair has.
  static uint64_t key_of(uint32_t left, uint32_t right) { return PairRanks::key(left + 256, right + 256); }
  Merge find_merge(uint32_t left, uint32_t right) const {
    const uint64_t key = key_of(left, right);
    const size_t slot = merges_.slot_of(key);
    return {static_cast<uint32_t>(merges_.rank(key, slot)), merges_.result(slot)};
  }
  // Symbols and their starts. Returns their number.
  size_t split(const uint8_t* text, size_t size, CharacterBpeScratch& scratch) const;
  // Of kMaxScanned symbols at most.
  void merge_by_scan(size_t* num_symbols, CharacterBpeScratch& scratch) const;
  bool merge_by_heap(size_t* num_symbols, bool is_text, CharacterBpeScratch& scratch) const;
  struct Lane;
  void fill(const Text& text, Lane* lane) const;
  void merge_in_lanes(Lane* lanes, size_t num_lanes) const;
  void write(const Lane& lane, Text* text) const;
  void write(uint32_t symbol, const uint8_t* text, size_t size, bool is_text, int depth,
             const CharacterBpeScratch& scratch, NumberWriter& writer) const;
  bool is_unused(uint32_t symbol) const {
    return symbol < vocabulary_->num_pieces() && vocabulary_->is(symbol, PieceType::kUnused);
  }
  size_t symbol_size(uint32_t symbol) const { return sizes_[symbol]; }

  // Symbols are the pieces, by number, then the characters that are in pieces but are no pieces themselves.
  const PieceVocabulary* vocabulary_ = nullptr;
  const PieceTrie* user_defined_ = nullptr;
  bool begins_user_defined_[256] = {};
  bool has_unused_ = false;
  uint32_t ascii_[128];
  NumberTable characters_;
  PairRanks merges_;
  std::vector<uint32_t> sizes_;  // bytes, by symbol
  // Of unused pieces: the pair that they are seen as; kNone, kNone if there is none or are several.
  std::vector<std::pair<uint32_t, uint32_t>> parts_;
  std::vector<bool> is_ambiguous_;
};

}  // namespace tokcore
