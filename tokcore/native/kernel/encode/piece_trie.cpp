#include "encode/piece_trie.h"

#include <algorithm>
#include <array>

namespace tokcore {

// Places the children of one node after the other, each time where the first free units are.
class PieceTrie::Builder {
 public:
  Builder(const std::vector<Entry>& entries, std::vector<Unit>* units) : entries_(entries), units_(*units) {}

  void run() {
    grow(1);
    units_[kRoot].parent = kRoot - 1;  // no node: the root is nobody's child
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
    if (units_.size() < num_used + kWidth) units_.resize(num_used + kWidth, {0, kNone, kNone, 0});
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
    std::array<std::pair<uint8_t, size_t>, kWidth> children;  // their byte, and where their entries begin
    for (size_t i = range.first; i < range.last; ++i) {
      if (num_children == 0 || children[num_children - 1].first != byte_of(i))
        children[num_children++] = {byte_of(i), i};
    }
    const uint32_t base = find_base(children.data(), num_children);
    units_[range.node].base = base;
    for (size_t i = 0; i < num_children; ++i) units_[base + children[i].first].parent = range.node;
    for (size_t i = num_children; i-- > 0;) {
      const size_t last = i + 1 < num_children ? children[i + 1].second : range.last;
      waiting_.push_back({base + children[i].first, children[i].second, last, range.depth + 1});
    }
  }

  bool is_free(size_t at) const { return at >= units_.size() || (units_[at].parent == kNone && at != kRoot); }

  uint32_t find_base(const std::pair<uint8_t, size_t>* children, size_t num_children) {
    const size_t first_byte = children[0].first;
    const size_t from = std::max(first_free_, first_byte + 1);
    size_t num_taken = 0;
    for (size_t at = from;; ++at) {
      if (!is_free(at)) {
        ++num_taken;
        continue;
      }
      if (num_taken == at - first_free_) first_free_ = at;  // all before it are taken
      const size_t base = at - first_byte;
      bool fits = true;
      for (size_t i = 1; i < num_children && fits; ++i) fits = is_free(base + children[i].first);
      if (!fits) continue;
      // Where nearly all is taken, the next search need not look again.
      if (num_taken * 20 >= (at - from + 1) * 19) first_free_ = at;
      grow(base + kWidth);
      return static_cast<uint32_t>(base);
    }
  }

  static constexpr size_t kWidth = 256;

  const std::vector<Entry>& entries_;
  std::vector<Unit>& units_;
  std::vector<Range> waiting_;
  size_t first_free_ = 1;
};

void PieceTrie::build(std::vector<Entry> entries) {
  units_.clear();
  if (entries.empty()) return;
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) { return a.text < b.text; });
  Builder(entries, &units_).run();
}

}  // namespace tokcore
