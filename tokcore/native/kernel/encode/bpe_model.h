// DESCRIPTION
// BpeModel encodes one pre-token: its bytes become token ids by the merges of a vocabulary. Each step merges
// the pair with the lowest priority number (if several are equal, the leftmost), until no pair is left.
//
// There are three ways to the same ids:
//   - short pre-tokens: for each merge, a scan of a small array; several pre-tokens side by side. See
//     merge_lanes.h.
//   - long ones of a well-formed vocabulary: short chunks are merged in the same way and joined. Where they
//     do not fit, matching goes from left to right: it takes the longest token that may follow the one
//     before, and goes back if none may. Linear. See long_pieces.cpp.
//   - long ones of any other vocabulary: a heap and a linked list. n log n.
//
// A vocabulary is well-formed if the bytes of every merged token encode to that token and its parts have
// lower priority numbers. Learned vocabularies are. Then a token is always made of the same two parts, so
// that neighbours alone decide (tokcore/README.md, Encoding).
//
// Nothing that can be seen changes once it is built, so all methods are thread-safe; the caller brings the
// scratch memory.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "encode/cuts.h"
#include "encode/merge_lanes.h"
#include "encode/pair_ranks.h"
#include "encode/piece_model.h"

namespace tokcore {

enum class VocabularyStatus : uint8_t {
  kOk,
  kBadOffsets,       // offsets do not ascend, or leave the data (position: the token)
  kTooLarge,         // more than 2^30 bytes of tokens, or 2^25 merges or more (that number)
  kNegativeId,       // (token)
  kEmptyToken,       // (token)
  kDuplicateId,      // (token)
  kDuplicateToken,   // (token)
  kMissingByte,      // no token for one of the 256 bytes (byte)
  kUnknownId,        // an id of a merge is not a token's (merge)
  kUnknownSymbol,    // a character becomes what is no symbol (character)
  kNotJoined,        // the bytes of a merge's result are not those of its parts (merge)
  kPrioritiesClash,  // two merges of the same priority make different tokens (merge)
  kNotFinite,        // a score is not a finite number (token)
  kTrieTooLarge,     // more tokens than a trie holds (that number)
};

struct [[nodiscard]] VocabularyResult {
  VocabularyStatus status;
  uint64_t position;
};

// A vocabulary. Its pointers are only read while the model is built.
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
  bool whole;  // a pre-token that is a token becomes that token, without merging
};

class BpeModel final : public PieceModel {
 public:
  // merge: merges short pieces on this processor.
  explicit BpeModel(MergeInLanes* merge) : merge_(merge) {}

  VocabularyResult build(const Vocabulary& vocabulary);

  void encode(Piece* pieces, size_t num_pieces, PieceScratch& scratch) const override;

  // A very long pre-token is quicker as one part.
  size_t part_end(const uint8_t* text, size_t size, size_t begin) const override {
    constexpr size_t kMaxCutBytes = 2048;
    if (well_formed_ && size > kMaxCutBytes) return size;
    const size_t end = cuts_.next(text, size, begin);
    return begin == 0 && end != size && whole_decides_ && !may_cut(text, size) ? size : end;
  }

  Tokens tokens() const override {
    return {external_.size(), bytes_.data(), starts_.data(), external_.data(), is_own_};
  }

 private:
  static constexpr uint32_t kNone = UINT32_MAX;

  // Inside the model, tokens are numbered: 0 to 255 are the bytes, then come the results of merges in the
  // order of ranks, then the tokens that no merge makes. Ranks are priorities without gaps.
  struct LastMerge {
    uint32_t left;
    uint32_t right;
  };

  struct Merge {
    uint32_t left;  // positions in the vocabulary
    uint32_t right;
    uint32_t result;
    uint32_t priority;
    uint32_t rank;
  };

  // bytes -> token number. Open addressing over numbers; part of the hash tells most other tokens at once.
  class TokenIndex {
   public:
    void reset(size_t num_tokens);
    // False if a token of the same bytes is there already.
    bool insert(const BpeModel& model, uint32_t token);
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

  // A trie in one hash table: a node is the slot of the edge that leads to it.
  class Trie {
   public:
    void build(const BpeModel& model, size_t num_tokens);
    // The longest token at the start of text. size > 0.
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
  VocabularyResult number_tokens(const Vocabulary& vocabulary, std::vector<Merge>* merges,
                                 std::vector<uint32_t>* numbers);
  static std::vector<PairRanks::Entry> list_pairs(const std::vector<Merge>& merges,
                                                  const std::vector<uint32_t>& numbers);
  void find_own_encodings(const std::vector<Merge>& merges, const std::vector<uint32_t>& numbers, bool whole);
  bool drop_dead_merges(const std::vector<uint32_t>& numbers, std::vector<Merge>* merges) const;
  bool may_cut(const uint8_t* text, size_t size) const;
  void find_own_in_lanes();
  size_t encode_long(const Piece& piece, PieceScratch& scratch) const;
  size_t encode_repeated(const Piece& piece, size_t period, PieceScratch& scratch) const;
  size_t encode_in_chunks(const Piece& piece, PieceScratch& scratch) const;
  // Each leaves the tokens in scratch.symbols and returns their number. merge_by_scan: at most kMaxLaneBytes.
  size_t merge_by_scan(const uint8_t* text, size_t size, PieceScratch& scratch, LastMerge* last) const;
  size_t merge_by_heap(const uint8_t* text, size_t size, PieceScratch& scratch, LastMerge* last) const;
  size_t match_left_to_right(const uint8_t* text, size_t size, PieceScratch& scratch) const;
  bool follows(uint32_t left, uint32_t right, PieceScratch& scratch) const;
  bool may_follow(uint32_t left, uint32_t right) const;

  MergeInLanes* merge_;
  std::vector<uint8_t> bytes_;    // of all tokens, by number
  std::vector<uint64_t> starts_;  // where each begins, and the end of the last
  std::vector<int32_t> external_;
  bool is_external_ = false;  // whether token numbers from 256 on are their ids
  std::vector<uint32_t> result_of_rank_;
  PairRanks pairs_;
  Cuts cuts_;
  TokenIndex whole_;            // tokens that a pre-token of the same bytes becomes
  std::vector<bool> is_own_;    // whether a token's bytes encode to it
  size_t num_reachable_ = 256;  // tokens that merges make, and the bytes; they have the lowest numbers
  bool whole_decides_ = false;  // whether whole_ has a token that merging its bytes does not give
  TokenIndex odd_;              // those tokens
  bool well_formed_ = false;
  // Only for a well-formed vocabulary.
  std::vector<LastMerge> parts_;  // the two parts of each token; of a byte, twice itself
  // Made when texts have needed them for more than kMergedBytes: to make them takes a third of the time of
  // all the rest, and a megabyte of text needs them for 1,500 bytes or less.
  struct Matching {
    Trie trie;
    std::vector<uint32_t> longest_prefix;  // the longest other token at a token's start; kNone for bytes
  };
  struct Making {
    std::atomic<size_t> merged_bytes = 0;  // by merge_by_heap, in their place
    std::once_flag once;
  };
  static constexpr size_t kMergedBytes = 16384;
  const Matching& matching() const {
    std::call_once(making_->once, [this] { make_matching(); });
    return matching_;
  }
  void make_matching() const;
  std::unique_ptr<Making> making_ = std::make_unique<Making>();
  mutable Matching matching_;
};

}  // namespace tokcore
