// DESCRIPTION
// FloorRound finds the next merges of words that do not fit in memory: all down to a limit, with the counts
// that Learner would give them. The limit is a count, and a pair: pairs that just have the count are below it
// if they come after that pair. The caller shows all words twice, in blocks; the merges so far are applied to
// them as they come.
// - add_counts() adds up a bound of each pair's count, in a table of fixed size.
// - add_pieces() cuts words at pairs that are below the limit with their bound, and keeps the pieces, equal
//   ones added up. Pieces of one symbol vanish. When there is no room for more, the limit rises, and the
//   pieces that are there are cut again.
// - learn() learns from the pieces, up to the first merge that is below the limit.
// Words may be dealt to several rounds of equal merges and bound_bits. Their bounds, added up number by
// number, bound the counts of all words; set_bounds() puts the sums in their place. The pieces of all of
// them, cut once more at the highest of their limits, are those of one round over all words.
//
// Why this is exact: counts of pairs never rise, so a pair below the limit is not merged before it is
// reached. Nor is a pair that a merge makes across a cut, which has no more windows than the pair cut there,
// and comes after it, as the new symbol has a higher id. So nothing is merged across cuts, and all windows of
// the pairs that are merged are in the pieces. A limit that is too high gives fewer merges, and never others.
//
// The bounds are those of a count-min sketch with conservative updates (Cormode and Muthukrishnan 2005; Estan
// and Varghese 2002): each pair has two places, its bound is the smaller number. What does not depend on the
// bounds, nor on the order of words, is what the merges of all rounds are in the end. Not thread-safe.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "encode/piece_model.h"
#include "encode/symbol_merges.h"
#include "learn/learner.h"
#include "learn/pair_table.h"
#include "learn/piece_table.h"
#include "learn/words.h"
#include "memory/worker_pool.h"

namespace tokcore {

struct FloorRoundOptions {
  const uint8_t* id_of_byte = nullptr;  // 256 ids, a permutation
  bool ends_words = false;              // the last byte of a word is the symbol 256 + id
  size_t max_token_bytes = 0;           // as in LearnOptions
  size_t threads = 1;
  unsigned bound_bits = 20;  // the table of bounds has 2^bound_bits numbers
  size_t max_pieces = 0;     // below 2^32 - 1
  size_t max_symbols = 0;    // of all pieces
};

// Pairs are at least at the limit if their count is higher, or the same and their key at most `last`.
struct PairLimit {
  static constexpr uint64_t kAllPairs = ~uint64_t{0};

  uint64_t count = 1;
  uint64_t last = kAllPairs;  // see pair_key()

  bool admits(uint64_t of_pair, uint64_t key) const {
    return of_pair >= count && (of_pair != count || key <= last);
  }
};

class FloorRound {
 public:
  // Merge i of those so far is (left[i], right[i]) and made the id 256 + i, or 512 + i if words have ends.
  FloorRound(const int32_t* left, const int32_t* right, size_t num_merges, const FloorRoundOptions& options);

  // False if all windows, times their words' counts, are more than 2^63 - 1.
  [[nodiscard]] bool add_counts(const ByteWords& words);
  uint64_t num_windows() const { return num_windows_; }  // of the words so far, times their counts
  const std::vector<uint64_t>& bounds() const { return bounds_; }
  // bounds: as many as there are.
  void set_bounds(const uint64_t* bounds) { std::copy(bounds, bounds + bounds_.size(), bounds_.begin()); }
  // The highest bound of all.
  uint64_t highest_bound() const;
  void begin_pieces(PairLimit limit);  // its count is at least 1
  void add_pieces(const ByteWords& words);
  // The same for pieces of another round, as symbols.
  void add_pieces(const SymbolWords& words);
  SymbolWords pieces() const { return pieces_->words(); }
  size_t num_symbols() const { return symbol_bytes_.size(); }  // that pieces may have
  PairLimit limit() const { return limit_; }
  size_t num_pieces() const { return pieces_->words().num_words; }
  // Of options, min_count and max_token_bytes are the round's. Once.
  Learned learn(LearnOptions options);

 private:
  struct Encoded {
    PieceScratch scratch;
    std::vector<uint32_t> symbols;
    std::vector<size_t> ends;  // in symbols
    std::vector<uint64_t> counts;
  };
  struct Places {
    uint64_t first, second;
  };

  bool allowed(uint32_t left, uint32_t right) const {
    return options_.max_token_bytes == 0 ||
           symbol_bytes_[left] + symbol_bytes_[right] <= options_.max_token_bytes;
  }
  Places places_of(uint32_t left, uint32_t right) const;
  bool is_cut(uint32_t left, uint32_t right, PairLimit limit) const {
    if (!allowed(left, right)) return true;
    const Places at = places_of(left, right);
    return !limit.admits(std::min(bounds_[at.first], bounds_[at.second]), pair_key(left, right));
  }
  void encode(const ByteWords& words, size_t first, size_t last, Encoded& encoded) const;
  template <typename Action>
  void each_encoded(const ByteWords& words, Action action);
  bool add_cut(PieceTable& table, const uint32_t*& symbols, size_t& size, uint64_t count,
               PairLimit limit) const;
  void raise_limit();
  std::unique_ptr<PieceTable> cut_again(PairLimit limit) const;

  FloorRoundOptions options_;
  SymbolMerges merges_;
  std::vector<size_t> symbol_bytes_;
  std::vector<uint64_t> bounds_;
  uint64_t num_windows_ = 0;  // times the words' counts
  PairLimit limit_;
  std::unique_ptr<PieceTable> pieces_;
  std::vector<Encoded> encoded_;
  std::unique_ptr<WorkerPool> pool_;
};

}  // namespace tokcore
