#include "encode/character_trie.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <queue>
#include <utility>

#include "encode/free_places.h"
#include "scan/character.h"

namespace tokcore {
namespace {

constexpr double kLeastScore = -30;

double share_of(float score) { return std::exp(std::clamp(double{score}, kLeastScore, 0.0)); }

}  // namespace

// Places the children of one node after the other, each time where the first free units are; first the nodes
// that texts pass most often.
class CharacterTrie::Builder {
 public:
  // entries: in the order of their characters' numbers.
  Builder(const std::vector<Entry>& entries, const std::vector<uint32_t>& characters,
          const std::vector<size_t>& starts, CharacterTrie* trie)
      : entries_(entries),
        characters_(characters),
        starts_(starts),
        trie_(*trie),
        width_(trie->num_characters_),
        places_(1, width_) {}

  bool run() {
    shares_.assign(1, 0);
    for (const Entry& entry : entries_) shares_.push_back(shares_.back() + share_of(entry.score));
    grow(1);
    waiting_.push({0, CharacterTrie::kRoot, 0, entries_.size(), 0});
    while (!waiting_.empty()) {
      const Range range = waiting_.top();
      waiting_.pop();
      if (!place(range)) return false;
    }
    link_suffixes();
    trie_.unit_memory_ = ZeroedMemory(units_.size() * sizeof(Unit));
    std::memcpy(trie_.unit_memory_.data(), units_.data(), units_.size() * sizeof(Unit));
    trie_.units_ = reinterpret_cast<const Unit*>(trie_.unit_memory_.data());
    return true;
  }

 private:
  static constexpr size_t kMaxPlace = size_t{1} << 30;

  // The entries below a node, which have their first `depth` characters in common.
  struct Range {
    double share;
    uint32_t node;
    size_t first, last, depth;

    bool operator<(const Range& other) const {
      return share != other.share ? share < other.share : first > other.first;
    }
  };

  void grow(size_t num_used) {
    if (units_.size() >= num_used + width_) return;
    units_.resize(num_used + width_, {kFree, kDead, 0, kRoot, kNoScore, 0, kRoot, 0});
  }

  bool place(Range range) {
    const auto label_of = [&](size_t i) { return characters_[starts_[i] + range.depth]; };
    if (range.first < range.last && starts_[range.first + 1] - starts_[range.first] == range.depth) {
      const Entry& own = entries_[range.first++];
      units_[range.node].score = own.score;
      units_[range.node].piece = own.piece;
    }
    if (range.first == range.last) return true;
    std::vector<FreePlaces::Child>& children = children_;
    children.clear();
    for (size_t i = range.first; i < range.last; ++i) {
      if (children.empty() || children.back().first != label_of(i)) children.push_back({label_of(i), i});
    }
    const size_t found = places_.take(children.data(), children.size());
    if (found + width_ > kMaxPlace) return false;
    grow(found + width_);
    const auto first = static_cast<uint32_t>(found);
    units_[range.node].first = first;
    for (size_t i = 0; i < children.size(); ++i) {
      const auto [label, begin] = children[i];
      const size_t end = i + 1 < children.size() ? children[i + 1].second : range.last;
      units_[first + label].character = label;
      units_[first + label].num_characters = static_cast<uint32_t>(range.depth) + 1;
      units_[range.node].children |= uint32_t{1} << label % 32;
      nodes_.push_back({range.node, first + label});
      waiting_.push({shares_[end] - shares_[begin], first + label, begin, end, range.depth + 1});
    }
    return true;
  }

  // Shorter nodes first, because a suffix is shorter.
  void link_suffixes() {
    trie_.units_ = units_.data();
    std::sort(nodes_.begin(), nodes_.end(), [&](const Node& a, const Node& b) {
      const uint32_t sizes[] = {units_[a.place].num_characters, units_[b.place].num_characters};
      return sizes[0] != sizes[1] ? sizes[0] < sizes[1] : a.place < b.place;
    });
    for (const Node& node : nodes_) {
      Unit& unit = units_[node.place];
      if (node.parent == kRoot) continue;
      const uint32_t suffix = trie_.next(units_[node.parent].suffix, unit.character);
      unit.suffix = units_[suffix].children != 0 ? suffix : units_[suffix].suffix;
      unit.shorter = trie_.longest(suffix);
    }
  }

  struct Node {
    uint32_t parent, place;
  };

  const std::vector<Entry>& entries_;
  const std::vector<uint32_t>& characters_;  // of all entries, by number
  const std::vector<size_t>& starts_;        // where those of each entry begin, and the end
  CharacterTrie& trie_;
  size_t width_;
  std::vector<Unit> units_;
  std::vector<double> shares_;  // of all entries before one: the sum of their probabilities
  FreePlaces places_;
  std::vector<Node> nodes_;                  // all but the root
  std::vector<FreePlaces::Child> children_;  // of the node in hand
  std::priority_queue<Range> waiting_;
};

// Returns the entries that are UTF-8.
std::vector<CharacterTrie::Entry> CharacterTrie::number_characters(const std::vector<Entry>& entries) {
  std::vector<Entry> formed;
  std::vector<double> shares;  // by code point
  std::vector<uint32_t> found;
  for (const Entry& entry : entries) {
    const auto* const text = reinterpret_cast<const uint8_t*>(entry.text.data());
    std::vector<uint32_t> own;
    for (size_t i = 0; i < entry.text.size(); i += character_at(text, entry.text.size(), i).size)
      own.push_back(character_at(text, entry.text.size(), i).code_point);
    if (std::find(own.begin(), own.end(), kNoCodePoint) != own.end()) continue;
    formed.push_back(entry);
    for (const uint32_t c : own) {
      if (shares.size() <= c) shares.resize(c + 1, 0);
      if (shares[c] == 0) found.push_back(c);
      shares[c] += share_of(entry.score);
    }
  }
  std::sort(found.begin(), found.end(),
            [&](uint32_t a, uint32_t b) { return shares[a] != shares[b] ? shares[a] > shares[b] : a < b; });
  of_plane_.assign(0x10000, kNoCharacter);
  of_four_.reset(found.size());
  for (size_t i = 0; i < found.size(); ++i) {
    const uint32_t c = found[i];
    const auto number = static_cast<uint32_t>(i) + 1;
    if (c < 0x10000) of_plane_[c] = number;
    if (c < 0x80) of_ascii_[c] = number;
    const uint8_t four[] = {
        static_cast<uint8_t>(0xF0 | c >> 18), static_cast<uint8_t>(0x80 | (c >> 12 & 0x3F)),
        static_cast<uint8_t>(0x80 | (c >> 6 & 0x3F)), static_cast<uint8_t>(0x80 | (c & 0x3F))};
    if (c >= 0x10000) of_four_.add(pack(four), number);
  }
  num_characters_ = found.size() + 1;
  return formed;
}

bool CharacterTrie::build(const std::vector<Entry>& entries) {
  std::vector<Entry> formed = number_characters(entries);
  size_t total = 0;
  for (const Entry& entry : formed) total += entry.text.size();
  // The characters of each, in the order of what they spell.
  std::vector<uint32_t> given(total);
  std::vector<std::pair<size_t, size_t>> spans(formed.size());
  size_t used = 0;
  for (size_t i = 0; i < formed.size(); ++i) {
    const auto* const text = reinterpret_cast<const uint8_t*>(formed[i].text.data());
    const size_t count = translate(text, formed[i].text.size(), given.data() + used);
    spans[i] = {used, used + count};
    used += count;
  }
  std::vector<uint32_t> order(formed.size());
  for (uint32_t i = 0; i < order.size(); ++i) order[i] = i;
  std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    return std::lexicographical_compare(given.begin() + static_cast<ptrdiff_t>(spans[a].first),
                                        given.begin() + static_cast<ptrdiff_t>(spans[a].second),
                                        given.begin() + static_cast<ptrdiff_t>(spans[b].first),
                                        given.begin() + static_cast<ptrdiff_t>(spans[b].second));
  });
  std::vector<Entry> sorted;
  std::vector<uint32_t> characters;
  std::vector<size_t> starts{0};
  for (const uint32_t i : order) {
    sorted.push_back(formed[i]);
    for (size_t at = spans[i].first; at < spans[i].second; ++at) characters.push_back(given[at]);
    starts.push_back(characters.size());
  }
  return Builder(sorted, characters, starts, this).run();
}

}  // namespace tokcore
