#include "encode/character_trie.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "encode/free_places.h"
#include "encode/trie_nodes.h"
#include "scan/character.h"

namespace tokcore {

// Places the children of one node after the other, each time where the first free units are.
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
        places_(1, width_),
        nodes_(entries, kRoot) {}

  bool run() {
    grow(1);
    while (!nodes_.empty()) {
      if (!place(nodes_.take())) return false;
    }
    link_suffixes();
    trie_.unit_memory_ = ZeroedMemory(units_.size() * sizeof(Unit));
    std::memcpy(trie_.unit_memory_.data(), units_.data(), units_.size() * sizeof(Unit));
    trie_.units_ = reinterpret_cast<const Unit*>(trie_.unit_memory_.data());
    return true;
  }

 private:
  static constexpr size_t kMaxPlace = size_t{1} << 30;

  void grow(size_t num_used) {
    if (units_.size() >= num_used + width_) return;
    units_.resize(num_used + width_, {kFree, kDead, 0, kRoot, kNoScore, 0, kRoot, 0});
  }

  bool place(TrieNodes::Node node) {
    if (node.first < node.last && starts_[node.first + 1] - starts_[node.first] == node.depth) {
      const Entry& own = entries_[node.first++];
      units_[node.place].score = own.score;
      units_[node.place].piece = own.piece;
    }
    if (node.first == node.last) return true;
    const std::vector<FreePlaces::Child>& children =
        nodes_.find_children(node, [&](size_t i) { return characters_[starts_[i] + node.depth]; });
    const size_t found = places_.take(children.data(), children.size());
    if (found + width_ > kMaxPlace) return false;
    grow(found + width_);
    const auto first = static_cast<uint32_t>(found);
    units_[node.place].first = first;
    for (const auto& [label, begin] : children) {
      units_[first + label].character = label;
      units_[first + label].num_characters = static_cast<uint32_t>(node.depth) + 1;
      units_[node.place].children |= uint32_t{1} << label % 32;
      links_.push_back({node.place, first + label});
    }
    nodes_.add_children(node, first);
    return true;
  }

  // Shorter nodes first, because a suffix is shorter.
  void link_suffixes() {
    trie_.units_ = units_.data();
    std::stable_sort(links_.begin(), links_.end(), [&](const Link& a, const Link& b) {
      return units_[a.child].num_characters < units_[b.child].num_characters;
    });
    for (const auto& [parent, child] : links_) {
      if (parent == kRoot) continue;
      Unit& unit = units_[child];
      const uint32_t suffix = trie_.next(units_[parent].suffix, unit.character);
      unit.suffix = units_[suffix].children != 0 ? suffix : units_[suffix].suffix;
      unit.shorter = trie_.longest(suffix);
    }
  }

  struct Link {
    uint32_t parent, child;
  };

  const std::vector<Entry>& entries_;
  const std::vector<uint32_t>& characters_;  // of all entries, by number
  const std::vector<size_t>& starts_;        // where those of each entry begin, and the end
  CharacterTrie& trie_;
  size_t width_;
  std::vector<Unit> units_;
  FreePlaces places_;
  TrieNodes nodes_;
  std::vector<Link> links_;
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
      shares[c] += TrieNodes::share_of(entry.score);
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
