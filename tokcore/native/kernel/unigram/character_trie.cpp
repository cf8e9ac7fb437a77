#include "unigram/character_trie.h"

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
          const std::vector<size_t>& starts, float unknown_score, CharacterTrie* trie)
      : entries_(entries),
        characters_(characters),
        starts_(starts),
        unknown_score_(unknown_score),
        trie_(*trie),
        width_(trie->num_characters_),
        places_(1, width_),
        waiting_(entries, kRoot) {}

  bool run() {
    grow(1);
    while (!waiting_.empty()) {
      if (!place(waiting_.take())) return false;
    }
    link_suffixes();
    list_ends();
    write();
    return true;
  }

 private:
  static constexpr size_t kMaxPlace = size_t{1} << 30;
  static constexpr uint32_t kNone = UINT32_MAX;

  struct Unit {
    uint32_t character = kFree;
    uint32_t first = 0;           // 0 if there are no children
    uint32_t suffix = kRoot;      // the node of its longest suffix that has children
    uint32_t num_characters = 0;  // in it
    uint32_t shorter = kRoot;     // its longest suffix that is a piece; kRoot if none is
    uint32_t entry = kNone;       // the piece that this is
    uint32_t ends = 0;
  };

  void grow(size_t num_used) {
    if (units_.size() < num_used + width_) units_.resize(num_used + width_);
  }

  bool place(TrieNodes::Node node) {
    if (node.first < node.last && starts_[node.first + 1] - starts_[node.first] == node.depth) {
      owners_.push_back(node.place);
      units_[node.place].entry = static_cast<uint32_t>(node.first++);
    }
    if (node.first == node.last) return true;
    const std::vector<FreePlaces::Child>& children =
        waiting_.find_children(node, [&](size_t i) { return characters_[starts_[i] + node.depth]; });
    const size_t found = places_.take(children.data(), children.size());
    if (found + width_ > kMaxPlace) return false;
    grow(found + width_);
    const auto first = static_cast<uint32_t>(found);
    units_[node.place].first = first;
    for (const auto& [label, begin] : children) {
      units_[first + label].character = label;
      units_[first + label].num_characters = static_cast<uint32_t>(node.depth) + 1;
      links_.push_back({node.place, first + label});
    }
    waiting_.add_children(node, first);
    return true;
  }

  uint32_t next(uint32_t node, uint32_t character) const {
    for (;; node = units_[node].suffix) {
      const uint32_t place = units_[node].first + character;
      if (units_[node].first != 0 && units_[place].character == character) return place;
      if (node == kRoot) return kRoot;
    }
  }

  // The longest piece that a node ends with; kRoot if there is none.
  uint32_t longest(uint32_t node) const { return units_[node].entry != kNone ? node : units_[node].shorter; }

  // Shorter nodes first, because a suffix is shorter.
  void link_suffixes() {
    std::stable_sort(links_.begin(), links_.end(), [&](const Link& a, const Link& b) {
      return units_[a.child].num_characters < units_[b.child].num_characters;
    });
    for (const auto& [parent, child] : links_) {
      if (parent == kRoot) continue;
      Unit& unit = units_[child];
      const uint32_t suffix = next(units_[parent].suffix, unit.character);
      unit.suffix = units_[suffix].first != 0 ? suffix : units_[suffix].suffix;
      unit.shorter = longest(suffix);
    }
  }

  // List 0 is of unknown characters. Then each piece has one, and then those come that go on from others.
  void list_ends() {
    const size_t num_heads = owners_.size() + 1;
    lists_.assign(num_heads, kNoEnds);
    pieces_.assign(num_heads * kListed, kUnknown);
    std::vector<uint32_t>& next_lists = trie_.next_lists_;
    next_lists.assign(num_heads, 0);
    for (size_t i = 0; i < num_heads; ++i) {
      auto list = static_cast<uint32_t>(i);
      uint32_t used = 0;
      const auto add = [&](float score, uint32_t width, uint32_t piece) {
        if (used == kListed) {
          const auto next_list = static_cast<uint32_t>(lists_.size());
          lists_[list].widths[kListed - 1] |= kGoesOn;
          next_lists[list] = next_list;
          lists_.push_back(kNoEnds);
          pieces_.resize(pieces_.size() + kListed, kUnknown);
          next_lists.push_back(0);
          list = next_list;
          used = 0;
        }
        lists_[list].scores[used] = score;
        lists_[list].widths[used] = width;
        pieces_[list * size_t{kListed} + used++] = piece;
      };
      uint32_t width = 0;
      for (uint32_t node = i == 0 ? kRoot : owners_[i - 1]; node != kRoot; node = units_[node].shorter) {
        const Entry& entry = entries_[units_[node].entry];
        width = units_[node].num_characters;
        add(entry.score, width, entry.piece);
      }
      if (width != 1) add(unknown_score_, 1, kUnknown);
      if (i > 0) units_[owners_[i - 1]].ends = static_cast<uint32_t>(i);
    }
  }

  void write() {
    const size_t list_bytes = lists_.size() * sizeof(Ends), node_bytes = units_.size() * sizeof(Node);
    trie_.memory_ = ZeroedMemory(list_bytes + node_bytes + pieces_.size() * sizeof(uint32_t));
    uint8_t* const memory = trie_.memory_.data();
    std::memcpy(memory, lists_.data(), list_bytes);
    trie_.lists_ = reinterpret_cast<const Ends*>(memory);
    auto* const nodes = reinterpret_cast<Node*>(memory + list_bytes);
    for (size_t i = 0; i < units_.size(); ++i) {
      const Unit& unit = units_[i];
      const Unit& leads_on = unit.first != 0 ? unit : units_[unit.suffix];
      nodes[i] = {unit.character, leads_on.first, leads_on.suffix,
                  units_[longest(static_cast<uint32_t>(i))].ends};
    }
    trie_.nodes_ = nodes;
    std::memcpy(memory + list_bytes + node_bytes, pieces_.data(), pieces_.size() * sizeof(uint32_t));
    trie_.pieces_ = reinterpret_cast<const uint32_t*>(memory + list_bytes + node_bytes);
  }

  static constexpr Ends kNoEnds{{kNoScore, kNoScore, kNoScore, kNoScore}, {1, 1, 1, 1}};

  struct Link {
    uint32_t parent, child;
  };

  const std::vector<Entry>& entries_;
  const std::vector<uint32_t>& characters_;  // of all entries, by number
  const std::vector<size_t>& starts_;        // where those of each entry begin, and the end
  float unknown_score_;
  CharacterTrie& trie_;
  size_t width_;
  std::vector<Unit> units_;
  FreePlaces places_;
  TrieNodes waiting_;
  std::vector<Link> links_;
  std::vector<uint32_t> owners_;  // the nodes that are pieces, the likely ones first
  std::vector<Ends> lists_;
  std::vector<uint32_t> pieces_;
};

void CharacterTrie::walk(std::vector<Walker>* walkers, const uint32_t* characters, uint32_t* ends) const {
  // Held by value: what is written through `ends` may not change it.
  const Node* const nodes = nodes_;
  const Ends* const lists = lists_;
  const uint32_t root = nodes[kRoot].first;
  Walker* const all = walkers->data();
  for (size_t left = walkers->size(); left > 0;) {
    size_t kept = 0;
    for (size_t i = 0; i < left; ++i) {
      const Walker walker = all[i];
      const uint32_t character = characters[walker.at];
      const uint32_t place = walker.first + character;
      // A mask, because compilers would make a conditional a branch.
      const uint32_t leads_on = 0 - static_cast<uint32_t>(nodes[place].character == character);
      const Node node = nodes[walker.suffix ^ ((walker.suffix ^ place) & leads_on)];
      const uint32_t list = node.ends & leads_on;
      ends[walker.at] = list;
      __builtin_prefetch(&lists[list]);
      const size_t at = walker.at + ((leads_on & 1) | static_cast<uint32_t>(walker.first == root));
      __builtin_prefetch(&nodes[node.first + characters[at]]);
      all[kept] = {node.first, node.suffix, at, walker.end};
      kept += at != walker.end;
    }
    left = kept;
  }
  walkers->clear();
}

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

bool CharacterTrie::build(const std::vector<Entry>& entries, float unknown_score) {
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
  return Builder(sorted, characters, starts, unknown_score, this).run();
}

}  // namespace tokcore
