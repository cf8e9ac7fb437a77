#include "unigram/seed_pieces.h"

#include <algorithm>
#include <stdexcept>

namespace tokcore {
namespace {

using Wide = unsigned __int128;

constexpr size_t kSymbolsPerKey = 3, kBitsPerSymbol = 21;

struct Suffix {
  uint64_t key;  // symbols + 1 from some depth on; 0: the suffix has ended
  uint32_t start;
};

class SeedFinder {
 public:
  SeedFinder(const PieceWords& words, const PieceChecker& checker, uint64_t min_count, size_t most)
      : words_(words),
        checker_(checker),
        min_count_(min_count),
        most_(most),
        depth_limit_(checker.max_length() + 1) {
    const size_t num_symbols = words.symbols.size();
    if (num_symbols >= UINT32_MAX) throw std::length_error("more than 2**32 - 2 characters");
    word_of_.resize(num_symbols);
    for (uint32_t word = 0; word < words.counts.size(); ++word) {
      for (auto at = words.offsets[word]; at < words.offsets[word + 1]; ++at)
        word_of_[static_cast<size_t>(at)] = word;
    }
  }

  std::vector<SeedPiece> run() {
    const size_t num_kinds = words_.code_points.size();
    std::vector<size_t> ends(num_kinds + 1);
    for (const uint32_t symbol : words_.symbols) ++ends[symbol + 1];
    for (size_t i = 0; i < num_kinds; ++i) ends[i + 1] += ends[i];
    Buffer<uint32_t> starts(words_.symbols.size());
    std::vector<size_t> next(ends.begin(), ends.end() - 1);
    for (uint32_t at = 0; at < words_.symbols.size(); ++at) starts[next[words_.symbols[at]]++] = at;
    Buffer<Suffix> suffixes;
    for (size_t symbol = 0; symbol < num_kinds; ++symbol) {
      suffixes.clear();
      for (size_t i = ends[symbol]; i < ends[symbol + 1]; ++i) suffixes.push_back({0, starts[i]});
      sort(suffixes.data(), suffixes.data() + suffixes.size(), 1);
      walk(suffixes);
    }
    keep_best();
    return std::move(seeds_);
  }

 private:
  size_t end_of(uint32_t start) const { return static_cast<size_t>(words_.offsets[word_of_[start] + 1]); }
  uint64_t count_of(uint32_t start) const { return words_.counts[word_of_[start]]; }

  uint64_t key_at(uint32_t start, size_t depth) const {
    uint64_t key = 0;
    const size_t end = std::min(end_of(start), start + depth_limit_);
    for (size_t i = start + depth; i < start + depth + kSymbolsPerKey; ++i)
      key = key << kBitsPerSymbol | (i < end ? words_.symbols[i] + 1 : 0);
    return key;
  }

  // Sorts suffixes that are equal up to the depth.
  void sort(Suffix* first, Suffix* last, size_t depth) {
    if (last - first < 2 || depth >= depth_limit_) return;
    for (Suffix* one = first; one != last; ++one) one->key = key_at(one->start, depth);
    std::sort(first, last, [](const Suffix& a, const Suffix& b) {
      return a.key != b.key ? a.key < b.key : a.start < b.start;
    });
    while (first != last) {
      Suffix* const equal =
          std::find_if(first, last, [&](const Suffix& one) { return one.key != first->key; });
      if ((first->key & ((uint64_t{1} << kBitsPerSymbol) - 1)) != 0)
        sort(first, equal, depth + kSymbolsPerKey);
      first = equal;
    }
  }

  size_t size_of(uint32_t start) const { return std::min(end_of(start) - start, depth_limit_); }

  size_t measure_common(uint32_t a, uint32_t b) const {
    const size_t most = std::min(size_of(a), size_of(b));
    size_t common = 0;
    while (common < most && words_.symbols[a + common] == words_.symbols[b + common]) ++common;
    return common;
  }

  // Visits what neighbouring suffixes have in common: runs that go on in several ways, or end.
  void walk(const Buffer<Suffix>& suffixes) {
    struct Open {
      size_t depth;
      uint64_t count;
      uint32_t start;
    };
    std::vector<Open> open{{0, 0, 0}};
    size_t before = 0;  // what a suffix has in common with the one before
    for (size_t i = 0; i < suffixes.size(); ++i) {
      const uint32_t start = suffixes[i].start;
      const size_t after = i + 1 < suffixes.size() ? measure_common(start, suffixes[i + 1].start) : 0;
      const size_t size = size_of(start);
      const uint64_t count = count_of(start);
      if (size > before && size > after) add(start, size, count);  // a whole suffix, of one word
      // The last that is open is what the suffix has in common with the one before.
      if (after > before) {
        open.push_back({after, count, start});
      } else {
        open.back().count += count;
        while (open.back().depth > after) {
          const Open done = open.back();
          open.pop_back();
          add(done.start, done.depth, done.count);
          if (open.back().depth < after) {
            open.push_back({after, done.count, done.start});
          } else {
            open.back().count += done.count;
          }
        }
      }
      before = after;
    }
  }

  void add(uint32_t start, size_t size, uint64_t count) {
    if (size < 2 || size > checker_.max_length() || count < min_count_) return;
    if (!checker_.allows(words_.symbols.data() + start, size)) return;
    seeds_.push_back({count, start, static_cast<uint32_t>(size)});
    if (seeds_.size() >= 2 * most_ + kLeastRoom) drop_worst();
  }

  bool comes_before(const SeedPiece& a, const SeedPiece& b) const {
    const Wide score_a = Wide{a.count} * a.size, score_b = Wide{b.count} * b.size;
    if (score_a != score_b) return score_a > score_b;
    const uint32_t* const symbols = words_.symbols.data();
    return std::lexicographical_compare(symbols + a.start, symbols + a.start + a.size, symbols + b.start,
                                        symbols + b.start + b.size);
  }

  void drop_worst() {
    const auto order = [this](const SeedPiece& a, const SeedPiece& b) { return comes_before(a, b); };
    std::nth_element(seeds_.begin(), seeds_.begin() + static_cast<ptrdiff_t>(most_), seeds_.end(), order);
    seeds_.resize(most_);
  }

  void keep_best() {
    if (seeds_.size() > most_) drop_worst();
    std::sort(seeds_.begin(), seeds_.end(),
              [this](const SeedPiece& a, const SeedPiece& b) { return comes_before(a, b); });
  }

  static constexpr size_t kLeastRoom = 1024;

  const PieceWords& words_;
  const PieceChecker& checker_;
  uint64_t min_count_;
  size_t most_;
  size_t depth_limit_;  // one more than a piece may have: so runs that always go on are seen
  Buffer<uint32_t> word_of_;
  std::vector<SeedPiece> seeds_;
};

}  // namespace

std::vector<SeedPiece> find_seed_pieces(const PieceWords& words, const PieceChecker& checker,
                                        uint64_t min_count, size_t most) {
  return SeedFinder(words, checker, min_count, most).run();
}

}  // namespace tokcore
