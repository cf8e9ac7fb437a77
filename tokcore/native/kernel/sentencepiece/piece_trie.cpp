#include "sentencepiece/piece_trie.h"

#include <algorithm>

#include "encode/free_places.h"

namespace tokcore {

// Places the children of one node after the other, each time where the first free units are.
class PieceTrie::Builder {
 public:
  Builder(const std::vector<Entry>& entries, std::vector<Unit>* units) : entries_(entries), units_(*units) {}

  void run() {
    grow(1);
    units_[kRoot].parent = kRoot - 1;  // no node: the root is the child of none
    waiting_.push_back({kRoot, 0, entries_.size(), 0});
    while (!waiting_.empty()) {
      const Range range = waiting_.back();
      waiting_.pop_back();
      place(range);
    }
  }

 private:
  // The entries below a node, which have their first `depth` bytes in common.
  struct Range {
    uint32_t node;
    size_t first, last, depth;
  };

  void grow(size_t num_used) {
    const size_t num_units = num_used + FreePlaces::kWidth;
    if (units_.size() < num_units) units_.resize(num_units, {0, kNone, kNone, 0});
  }

  void place(Range range) {
    const auto byte_of = [&](size_t i) { return static_cast<uint8_t>(entries_[i].text[range.depth]); };
    if (range.first < range.last && entries_[range.first].text.size() == range.depth) {
      const Entry& own = entries_[range.first++];
      units_[range.node].piece = own.piece;
      units_[range.node].score = own.score;
    }
    if (range.first == range.last) return;
    size_t num_children = 0;
    FreePlaces::Child children[FreePlaces::kWidth];
    for (size_t i = range.first; i < range.last; ++i) {
      if (num_children == 0 || children[num_children - 1].first != byte_of(i))
        children[num_children++] = {byte_of(i), i};
    }
    const auto base = static_cast<uint32_t>(places_.take(children, num_children));
    grow(base + FreePlaces::kWidth);
    units_[range.node].base = base;
    for (size_t i = 0; i < num_children; ++i) units_[base + children[i].first].parent = range.node;
    for (size_t i = num_children; i-- > 0;) {
      const size_t last = i + 1 < num_children ? children[i + 1].second : range.last;
      waiting_.push_back({base + children[i].first, children[i].second, last, range.depth + 1});
    }
  }

  const std::vector<Entry>& entries_;
  std::vector<Unit>& units_;
  FreePlaces places_{1};
  std::vector<Range> waiting_;
};

void PieceTrie::build(std::vector<Entry> entries) {
  units_.clear();
  if (entries.empty()) return;
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) { return a.text < b.text; });
  Builder(entries, &units_).run();
}

}  // namespace tokcore
