#include "unigram/score_trie.h"

#include <algorithm>

#include "encode/free_places.h"
#include "encode/trie_nodes.h"

namespace tokcore {

// Places the children of one node after the other, each time where the first free units are.
class ScoreTrie::Builder {
 public:
  Builder(const std::vector<Entry>& entries, ScoreTrie* trie)
      : entries_(entries), trie_(*trie), nodes_(entries, kNone) {}

  bool run() {
    // What has no children leads here, where no byte fits.
    grow(kWidth);
    for (uint32_t byte = 0; byte < kWidth; ++byte) trie_.units_[byte].link = (byte + 1) % kWidth;
    while (!nodes_.empty()) {
      if (!place(nodes_.take())) return false;
    }
    return true;
  }

 private:
  static constexpr size_t kWidth = FreePlaces::kWidth;
  static constexpr size_t kMaxPlace = size_t{1} << 24;
  static constexpr uint32_t kNone = UINT32_MAX;

  void grow(size_t num_used) {
    if (trie_.units_.size() >= num_used + kWidth) return;
    trie_.units_.resize(num_used + kWidth, {0, kNoScore});
    trie_.ended_.resize(num_used + kWidth, {kNone, 0});
  }

  bool place(TrieNodes::Node node) {
    if (node.first < node.last && entries_[node.first].text.size() == node.depth) {
      const Entry& own = entries_[node.first++];
      trie_.units_[node.place].score = own.score;
      trie_.ended_[node.place] = {own.piece, static_cast<uint32_t>(own.text.size())};
    }
    if (node.first == node.last) return true;
    const std::vector<FreePlaces::Child>& children = nodes_.find_children(
        node, [&](size_t i) { return static_cast<uint8_t>(entries_[i].text[node.depth]); });
    const size_t found = places_.take(children.data(), children.size());
    if (found + kWidth > kMaxPlace) return false;
    grow(found + kWidth);
    const auto first = static_cast<uint32_t>(found);
    if (node.place == kNone) {
      trie_.root_ = first;
    } else {
      trie_.units_[node.place].link |= first << 8;
    }
    for (const auto& [byte, begin] : children) trie_.units_[first + byte].link = byte;
    nodes_.add_children(node, first);
    return true;
  }

  const std::vector<Entry>& entries_;
  ScoreTrie& trie_;
  FreePlaces places_{kWidth};
  TrieNodes nodes_;
};

bool ScoreTrie::build(std::vector<Entry> entries) {
  units_.clear();
  ended_.clear();
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) { return a.text < b.text; });
  return Builder(entries, this).run();
}

}  // namespace tokcore
