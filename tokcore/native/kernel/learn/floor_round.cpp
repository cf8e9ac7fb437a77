#include "learn/floor_round.h"

#include <limits>
#include <utility>

#include "memory/hash.h"

namespace tokcore {
namespace {

constexpr auto kMaxWindows = static_cast<uint64_t>(std::numeric_limits<int64_t>::max());

}  // namespace

FloorRound::FloorRound(const int32_t* left, const int32_t* right, size_t num_merges,
                       const FloorRoundOptions& options)
    : options_(options),
      symbol_bytes_(options.ends_words ? 512 : 256, 1),
      bounds_(size_t{1} << options.bound_bits),
      encoded_(options.threads) {
  std::vector<uint32_t> lefts, rights, results;
  for (size_t i = 0; i < num_merges; ++i) {
    lefts.push_back(static_cast<uint32_t>(left[i]));
    rights.push_back(static_cast<uint32_t>(right[i]));
    results.push_back(static_cast<uint32_t>(symbol_bytes_.size()));
    symbol_bytes_.push_back(symbol_bytes_[lefts[i]] + symbol_bytes_[rights[i]]);
  }
  merges_.build(lefts.data(), rights.data(), results.data(), num_merges);
  if (options.threads > 1) pool_ = std::make_unique<WorkerPool>(options.threads);
}

FloorRound::Places FloorRound::places_of(uint32_t left, uint32_t right) const {
  const uint64_t hash = fold(pair_key(left, right) ^ 0xE7037ED1A0B428DBu, 0x9E3779B97F4A7C15u);
  return {hash >> (64 - options_.bound_bits), hash & (bounds_.size() - 1)};
}

// Appends the words first to last that have pairs after merging.
void FloorRound::encode(const ByteWords& words, size_t first, size_t last, Encoded& encoded) const {
  encoded.symbols.clear();
  encoded.ends.clear();
  encoded.counts.clear();
  std::vector<uint32_t>& word = encoded.scratch.symbols;
  for (size_t i = first; i < last; ++i) {
    if (!has_pairs(words, i)) continue;
    word.clear();
    for (auto at = words.offsets[i]; at < words.offsets[i + 1]; ++at)
      word.push_back(words.symbol(static_cast<size_t>(at)));
    if (options_.ends_words) word.back() += 256;
    merges_.merge(encoded.scratch);
    if (word.size() < 2) continue;
    encoded.symbols.insert(encoded.symbols.end(), word.begin(), word.end());
    encoded.ends.push_back(encoded.symbols.size());
    encoded.counts.push_back(words.counts[i]);
  }
}

// Calls action(symbols, size, count) for each word that has pairs after merging, in order.
template <typename Action>
void FloorRound::each_encoded(const ByteWords& words, Action action) {
  const size_t num_parts = pool_ ? encoded_.size() : 1;
  const auto encode_part = [&](size_t part) {
    encode(words, words.num_words * part / num_parts, words.num_words * (part + 1) / num_parts,
           encoded_[part]);
  };
  if (pool_) {
    pool_->run(encode_part);
  } else {
    encode_part(0);
  }
  for (const Encoded& encoded : encoded_) {
    size_t begin = 0;
    for (size_t i = 0; i < encoded.ends.size(); ++i) {
      action(encoded.symbols.data() + begin, encoded.ends[i] - begin, encoded.counts[i]);
      begin = encoded.ends[i];
    }
  }
}

bool FloorRound::add_counts(const ByteWords& words) {
  for (size_t i = 0; i < words.num_words; ++i) {
    if (!has_pairs(words, i)) continue;
    uint64_t weighted;
    if (__builtin_mul_overflow(uint64_t{size_of(words, i)} - 1, words.counts[i], &weighted) ||
        weighted > kMaxWindows - num_windows_)
      return false;
    num_windows_ += weighted;
  }
  each_encoded(words, [&](const uint32_t* symbols, size_t size, uint64_t count) {
    for (size_t i = 1; i < size; ++i) {
      if (!allowed(symbols[i - 1], symbols[i])) continue;
      const Places at = places_of(symbols[i - 1], symbols[i]);
      uint64_t &first = bounds_[at.first], &second = bounds_[at.second];
      const uint64_t sum = std::min(first, second) + count;
      first = std::max(first, sum);
      second = std::max(second, sum);
    }
  });
  return true;
}

uint64_t FloorRound::highest_bound() const { return *std::max_element(bounds_.begin(), bounds_.end()); }

void FloorRound::begin_pieces(PairLimit limit) {
  limit_ = limit;
  pieces_ = std::make_unique<PieceTable>(options_.max_pieces, options_.max_symbols);
}

void FloorRound::add_pieces(const ByteWords& words) {
  each_encoded(words, [&](const uint32_t* symbols, size_t size, uint64_t count) {
    while (!add_cut(*pieces_, symbols, size, count, limit_)) raise_limit();
  });
}

void FloorRound::add_pieces(const SymbolWords& words) {
  for (size_t i = 0; i < words.num_words; ++i) {
    const uint32_t* symbols = words.symbols + words.offsets[i];
    size_t size = size_of(words, i);
    while (!add_cut(*pieces_, symbols, size, words.counts[i], limit_)) raise_limit();
  }
}

// Cuts a word and adds its pieces. False if there is no room; then symbols and size are what is left to add.
bool FloorRound::add_cut(PieceTable& table, const uint32_t*& symbols, size_t& size, uint64_t count,
                         PairLimit limit) const {
  size_t begin = 0;
  for (size_t end = 1; end <= size; ++end) {
    if (end < size && !is_cut(symbols[end - 1], symbols[end], limit)) continue;
    if (end - begin >= 2 && !table.add(symbols + begin, end - begin, count)) {
      symbols += begin;
      size -= begin;
      return false;
    }
    begin = end;
  }
  return true;
}

// Raises the limit's count by quarters until a quarter of the room is free. Ends, as no bound reaches 2^63.
// If hardly any piece is left then, it goes down again, by halves, as far as it can: where pairs are about
// equally frequent, a quarter more would leave no pair to merge. Where very many are equally frequent, one
// more would: then some of those stay, the first in the order of pairs.
void FloorRound::raise_limit() {
  PairLimit low = limit_;  // where they do not fit
  std::unique_ptr<PieceTable> fewer;
  while (!(fewer = cut_again(limit_ = {.count = low.count + std::max<uint64_t>(1, low.count / 4)})))
    low = limit_;
  const auto try_limit = [&](PairLimit tried) {
    auto more = cut_again(tried);
    if (!more) return false;
    fewer = std::move(more);
    limit_ = tried;
    return true;
  };
  while (!fewer->is_fuller_than(1) && limit_.count - low.count > 1) {
    const PairLimit middle{.count = low.count + (limit_.count - low.count) / 2};
    if (!try_limit(middle)) low = middle;
  }
  // Pairs by number, in order: those that fit are below `end`; up to `end` they do not.
  const uint64_t num_symbols = symbol_bytes_.size();
  uint64_t begin = 0, end = num_symbols * num_symbols - 1;
  if (left_of(low.last) < num_symbols) end = left_of(low.last) * num_symbols + right_of(low.last);
  while (!fewer->is_fuller_than(1) && end - begin > 1) {
    const uint64_t middle = begin + (end - begin) / 2;
    const auto last =
        pair_key(static_cast<uint32_t>(middle / num_symbols), static_cast<uint32_t>(middle % num_symbols));
    (try_limit({.count = low.count, .last = last}) ? begin : end) = middle;
  }
  pieces_ = std::move(fewer);
}

// The pieces cut at a higher limit; nullptr if less than a quarter of the room would be free.
std::unique_ptr<PieceTable> FloorRound::cut_again(PairLimit limit) const {
  auto fewer = std::make_unique<PieceTable>(options_.max_pieces, options_.max_symbols);
  const SymbolWords words = pieces_->words();
  for (size_t i = 0; i < words.num_words; ++i) {
    const uint32_t* symbols = words.symbols + words.offsets[i];
    size_t size = size_of(words, i);
    if (!add_cut(*fewer, symbols, size, words.counts[i], limit) || fewer->is_fuller_than(3)) return nullptr;
  }
  return fewer;
}

Learned FloorRound::learn(LearnOptions options) {
  std::vector<uint64_t>().swap(bounds_);
  std::vector<Encoded>().swap(encoded_);
  pieces_->close();
  options.min_count = limit_.count;
  options.max_token_bytes = options_.max_token_bytes;
  const SymbolWords words = pieces_->words();
  Learned learned = learn_symbols(words.symbols, words.offsets, words.counts, words.num_words,
                                  std::move(symbol_bytes_), options);
  pieces_.reset();
  // What was learned from pairs below the limit, some of whose windows may be missing, is not kept.
  size_t num_merges = 0;
  while (num_merges < learned.left.size() &&
         limit_.admits(learned.count[num_merges], pair_key(static_cast<uint32_t>(learned.left[num_merges]),
                                                           static_cast<uint32_t>(learned.right[num_merges]))))
    ++num_merges;
  learned.left.resize(num_merges);
  learned.right.resize(num_merges);
  learned.count.resize(num_merges);
  return learned;
}

}  // namespace tokcore
