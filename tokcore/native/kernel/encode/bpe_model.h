// DESCRIPTION
// BpeModel encodes one pre-token: its bytes become token ids by the merges of a vocabulary. In every step the
// pair of lowest priority number is merged, the leftmost among equal ones, until no pair is left. Three ways
// to the same ids, chosen by length:
//   - a scan of a small array for each merge (short pre-tokens), several pre-tokens side by side;
//   - short chunks of long ones in the same way, put together again; where they do not fit, left to right,
//     the longest token that may follow the last one, going back where none may (long_pieces.cpp). Linear,
//     but only for a well-formed vocabulary: every merged token's own bytes encode to it, and its parts have
//     lower priority numbers. Vocabularies that were learned are; then a token is only ever made of the same
//     two parts, which is why looking at neighbours decides;
//   - a heap and a linked list (long ones, any vocabulary): n log n.
// Immutable once built, so all methods are thread-safe; the caller brings the scratch memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "encode/cuts.h"
#include "encode/merge_lanes.h"
#include "encode/pair_ranks.h"

namespace tokcore {

enum class VocabularyStatus : uint8_t {
  kOk,
  kBadOffsets,       // offsets do not ascend, or leave the data (position: token)
  kTooLarge,         // the tokens together have more than 2^30 bytes (their bytes), or 2^25 merges or more
  kNegativeId,       // (token)
  kEmptyToken,       // (token)
  kDuplicateId,      // (token)
  kDuplicateToken,   // (token)
  kMissingByte,      // no token for one of the 256 bytes (byte)
  kUnknownId,        // a merge of or into an id that is no token (merge)
  kNotJoined,        // the bytes of a merge's result are not those of its parts (merge)
  kPrioritiesClash,  // two merges of one priority make different tokens (merge)
};

struct [[nodiscard]] VocabularyResult {
  VocabularyStatus status;
  uint64_t position;
};

// What a vocabulary is made of; the pointers are only read while the model is built.
struct Vocabulary {
  const uint8_t* data;
  size_t data_size;
  const int64_t* offsets;  // num_tokens + 1
  size_t num_tokens;
  const int32_t* token_ids;
  size_t num_merges;
  const int32_t* left;
  const int32_t* right;
  const int32_t* result;
  const uint32_t* priority;
  bool whole;  // a pre-token that is itself a token is emitted as such
};

// Memory that encoding reuses from piece to piece. One per thread.
struct PieceScratch {
  std::vector<Piece*> waiting;
  std::vector<uint32_t> symbols;
  std::vector<uint32_t> ranks;
  std::vector<uint32_t> previous;
  std::vector<uint32_t> next;
  std::vector<uint64_t> heap;
  std::vector<uint64_t> dead;
  std::vector<uint64_t> known_neighbours;  // see follows()
  std::vector<int32_t> chunk_ids;
};

class BpeModel {
 public:
  // The longest pre-token: positions in it are 32 bits wide.
  static constexpr size_t kMaxPieceBytes = (size_t{1} << 32) - 2;

  // merge: how short pieces are merged, for this processor.
  explicit BpeModel(MergeInLanes* merge) : merge_(merge) {}

  VocabularyResult build(const Vocabulary& vocabulary);

  // Writes the external ids of each piece, 0 < size <= kMaxPieceBytes. The more pieces, the quicker each:
  // looking up pairs for one waits for memory while others go on.
  void encode(Piece* pieces, size_t num_pieces, PieceScratch& scratch) const;

  // The end of the part of a pre-token that begins at `begin`: parts may be encoded apart, and remembered.
  // For pre-tokens that are too long to be remembered. Very long ones cost less in one part.
  size_t part_end(const uint8_t* text, size_t size, size_t begin) const {
    constexpr size_t kMaxCutBytes = 2048;
    const bool is_whole = whole_decides_ || (well_formed_ && size > kMaxCutBytes);
    return is_whole ? size : cuts_.next(text, size, begin);
  }

  // All tokens, the most common first as far as ranks tell. is_own: whether it is what its bytes encode to.
  struct Tokens {
    size_t num;
    const uint8_t* data;
    const uint64_t* starts;  // num + 1
    const int32_t* ids;
    const std::vector<bool>& is_own;
  };
  Tokens tokens() const {
    return {external_.size(), bytes_.data(), starts_.data(), external_.data(), is_own_};
  }

 private:
  static constexpr uint32_t kNone = UINT32_MAX;

  // Inside, tokens have numbers of their own: 0 to 255 are the bytes, then come the results of merges in the
  // order of ranks, then what no merge makes. Ranks are priorities without gaps.
  struct LastMerge {
    uint32_t left;
    uint32_t right;
  };

  // bytes -> token number; open addressing over numbers, with a part of the hash to tell most strangers at
  // once.
  class TokenIndex {
   public:
    void reset(size_t num_tokens);
    void insert(const BpeModel& model, uint32_t token);
    uint32_t find(const BpeModel& model, const uint8_t* text, size_t size) const;

   private:
    struct Slot {
      uint32_t tag;
      uint32_t token;
    };
    std::vector<Slot> slots_;
    size_t mask_ = 0;
    size_t longest_ = 0;
  };

  // A trie in one hash table: a node is the slot that holds the edge leading to it.
  class Trie {
   public:
    void build(const BpeModel& model, size_t num_tokens);
    // The longest token that text begins with. size > 0.
    uint32_t longest(const uint8_t* text, size_t size) const {
      uint32_t found = text[0];
      uint32_t node = root_[text[0]];
      for (size_t i = 1; i < size && (node = child(node, text[i])) != kNone; ++i) {
        if (tokens_[node] != kNone) found = tokens_[node];
      }
      return found;
    }

   private:
    static constexpr uint64_t kNoEdge = UINT64_MAX;
    uint32_t child(uint32_t node, uint8_t byte) const {
      const uint64_t edge = uint64_t{node} << 8 | byte;
      for (size_t slot = first_slot(edge);; slot = (slot + 1) & mask_) {
        if (edges_[slot] == edge) return static_cast<uint32_t>(slot);
        if (edges_[slot] == kNoEdge) return kNone;
      }
    }
    size_t first_slot(uint64_t edge) const { return (edge * 0x9E3779B97F4A7C15u) >> shift_; }

    uint32_t root_[256];
    std::vector<uint64_t> edges_;
    std::vector<uint32_t> tokens_;
    size_t mask_ = 0;
    unsigned shift_ = 63;
  };

  const uint8_t* token_data(uint32_t token) const { return bytes_.data() + starts_[token]; }
  size_t token_size(uint32_t token) const { return starts_[token + 1] - starts_[token]; }

  // kNone if the pair is never merged.
  uint32_t rank_of(uint32_t left, uint32_t right) const {
    const int32_t rank = pairs_.find(left, right);
    return rank == PairRanks::kNoRank ? kNone : static_cast<uint32_t>(rank);
  }
  void find_own_encodings(const std::vector<PairRanks::Entry>& merges, size_t num_reachable, bool whole);
  void find_own_in_lanes();
  size_t encode_long(const Piece& piece, PieceScratch& scratch) const;
  size_t encode_repeated(const Piece& piece, size_t period, PieceScratch& scratch) const;
  size_t encode_in_chunks(const Piece& piece, PieceScratch& scratch) const;
  // Each leaves the tokens in scratch.symbols and returns how many.
  size_t merge_by_heap(const uint8_t* text, size_t size, PieceScratch& scratch, LastMerge* last) const;
  size_t match_left_to_right(const uint8_t* text, size_t size, PieceScratch& scratch) const;
  bool follows(uint32_t left, uint32_t right, PieceScratch& scratch) const;
  bool may_follow(uint32_t left, uint32_t right) const;

  MergeInLanes* merge_;
  std::vector<uint8_t> bytes_;    // of all tokens, by number
  std::vector<uint64_t> starts_;  // where each begins, and the end
  std::vector<int32_t> external_;
  bool is_external_ = false;  // whether numbers from 256 on are ids
  std::vector<uint32_t> result_of_rank_;
  PairRanks pairs_;
  Cuts cuts_;
  TokenIndex whole_;            // the tokens that are emitted when a pre-token is one of them
  std::vector<bool> is_own_;    // whether a token is what its bytes encode to
  bool whole_decides_ = false;  // whether whole_ has a token that merging does not give
  bool well_formed_ = false;
  // Only for a well-formed vocabulary.
  std::vector<LastMerge> parts_;          // the two parts of each token; a byte is its own parts
  std::vector<uint32_t> longest_prefix_;  // the longest other token that a token begins with; kNone for bytes
  Trie trie_;
};

}  // namespace tokcore
