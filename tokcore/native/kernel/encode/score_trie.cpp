#include "encode/score_trie.h"

#include <algorithm>
#include <cmath>
#include <queue>

#include "encode/free_places.h"

namespace tokcore {

// Places the children of one node after the other, each time where the first free units are; first the nodes
// that texts pass most often.
class ScoreTrie::Builder {
 public:
  Builder(const std::vector<Entry>& entries, ScoreTrie* trie) : entries_(entries), trie_(*trie) {}

  bool run() {
    shares_.assign(1, 0);
    for (const Entry& entry : entries_) {
      const double score = std::clamp(double{entry.score}, kLeastScore, 0.0);
      shares_.push_back(shares_.back() + std::exp(score));
    }
    // What has no children leads here, where no byte fits.
    grow(kWidth);
    for (uint32_t byte = 0; byte < kWidth; ++byte) trie_.units_[byte].link = (byte + 1) % kWidth;
    waiting_.push({0, kNone, 0, entries_.size(), 0});
    while (!waiting_.empty()) {
      const Range range = waiting_.top();
      waiting_.pop();
      if (!place(range)) return false;
    }
    return true;
  }

 private:
  static constexpr size_t kWidth = FreePlaces::kWidth;
  static constexpr size_t kMaxPlace = size_t{1} << 24;
  static constexpr double kLeastScore = -30;
  static constexpr uint32_t kNone = UINT32_MAX;

  // The entries below a node, which have their first `depth` bytes in common.
  struct Range {
    double share;
    uint32_t node;
    size_t first, last, depth;

    bool operator<(const Range& other) const {
      return share != other.share ? share < other.share : first > other.first;
    }
  };

  void grow(size_t num_used) {
    if (trie_.units_.size() >= num_used + kWidth) return;
    trie_.units_.resize(num_used + kWidth, {0, kNoScore});
    trie_.ended_.resize(num_used + kWidth, {kNone, 0});
  }

  bool place(Range range) {
    const auto byte_of = [&](size_t i) { return static_cast<uint8_t>(entries_[i].text[range.depth]); };
    if (range.first < range.last && entries_[range.first].text.size() == range.depth) {
      const Entry& own = entries_[range.first++];
      trie_.units_[range.node].score = own.score;
      trie_.ended_[range.node] = {own.piece, static_cast<uint32_t>(own.text.size())};
    }
    if (range.first == range.last) return true;
    size_t num_children = 0;
    FreePlaces::Child children[kWidth];
    for (size_t i = range.first; i < range.last; ++i) {
      if (num_children == 0 || children[num_children - 1].first != byte_of(i))
        children[num_children++] = {byte_of(i), i};
    }
    const size_t found = places_.take(children, num_children);
    if (found + kWidth > kMaxPlace) return false;
    grow(found + kWidth);
    const auto first = static_cast<uint32_t>(found);
    if (range.node == kNone) {
      trie_.root_ = first;
    } else {
      trie_.units_[range.node].link |= first << 8;
    }
    for (size_t i = 0; i < num_children; ++i) {
      const auto [byte, begin] = children[i];
      const size_t end = i + 1 < num_children ? children[i + 1].second : range.last;
      trie_.units_[first + byte].link = byte;
      waiting_.push({shares_[end] - shares_[begin], first + byte, begin, end, range.depth + 1});
    }
    return true;
  }

  const std::vector<Entry>& entries_;
  ScoreTrie& trie_;
  std::vector<double> shares_;  // of all entries before one: the sum of their probabilities
  FreePlaces places_{kWidth};
  std::priority_queue<Range> waiting_;
};

bool ScoreTrie::build(std::vector<Entry> entries) {
  units_.clear();
  ended_.clear();
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) { return a.text < b.text; });
  return Builder(entries, this).run();
}

}  // namespace tokcore
