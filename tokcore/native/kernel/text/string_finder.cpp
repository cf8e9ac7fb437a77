#include "text/string_finder.h"

#include <algorithm>
#include <numeric>
#include <string_view>

namespace tokcore {

size_t StringFinder::build(const uint8_t* data, const int64_t* offsets, size_t num_strings) {
  const auto string = [&](size_t i) {
    return std::string_view(reinterpret_cast<const char*>(data + offsets[i]),
                            static_cast<size_t>(offsets[i + 1] - offsets[i]));
  };
  std::vector<uint32_t> order(num_strings);  // ascending by string, then by number
  std::iota(order.begin(), order.end(), 0u);
  std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    const int compared = string(a).compare(string(b));
    return compared != 0 ? compared < 0 : a < b;
  });
  size_t refused = num_strings;
  for (size_t i = 0; i < num_strings; ++i) {
    if (string(order[i]).empty() || (i > 0 && string(order[i - 1]) == string(order[i])))
      refused = std::min<size_t>(refused, order[i]);
  }
  if (refused < num_strings) return refused;

  // Strings [first, last) of the order, which are equal up to depth.
  struct Alike {
    size_t first, last, depth;
  };
  std::vector<Alike> waiting{{0, num_strings, 0}};  // of each node
  nodes_.assign(1, {0, 0, kNone});
  for (size_t node = 0; node < nodes_.size(); ++node) {
    auto [first, last, depth] = waiting[node];
    if (first < last && string(order[first]).size() == depth) nodes_[node].string = order[first++];
    nodes_[node].first_edge = static_cast<uint32_t>(edges_.size());
    while (first < last) {
      const char byte = string(order[first])[depth];
      size_t end = first + 1;
      while (end < last && string(order[end])[depth] == byte) ++end;
      edges_.push_back({static_cast<uint8_t>(byte), static_cast<uint32_t>(nodes_.size())});
      waiting.push_back({first, end, depth + 1});
      nodes_.push_back({0, 0, kNone});
      first = end;
    }
    nodes_[node].num_edges = static_cast<uint32_t>(edges_.size()) - nodes_[node].first_edge;
  }

  std::fill(std::begin(first_nodes_), std::end(first_nodes_), kNone);
  for (uint32_t i = 0; i < nodes_[0].num_edges; ++i) {
    const auto [byte, at] = edges_[i];
    const Node& node = nodes_[at];
    first_nodes_[byte] = at;
    alone_[byte] = node.string != kNone;
    for (size_t second = 0; second < 256 && alone_[byte]; ++second) pairs_.set(byte | second << 8);
    for (uint32_t k = 0; k < node.num_edges; ++k)
      pairs_.set(byte | size_t{edges_[node.first_edge + k].byte} << 8);
  }
  return num_strings;
}

void StringFinder::find(const uint8_t* text, size_t size, std::vector<FoundString>* found) const {
  for (size_t begin = 0; begin < size;) {
    const bool may_begin =
        begin + 1 < size ? pairs_[text[begin] | size_t{text[begin + 1]} << 8] : alone_[text[begin]];
    if (may_begin) [[unlikely]] {
      const FoundString longest = walk(text, begin, size);
      if (longest.string != kNone) {
        found->push_back(longest);
        begin = longest.end;
        continue;
      }
    }
    ++begin;
  }
}

// The longest string that begins there.
FoundString StringFinder::walk(const uint8_t* text, size_t begin, size_t size) const {
  FoundString longest{begin, begin, kNone};
  uint32_t at = first_nodes_[text[begin]];
  for (size_t end = begin + 1;; ++end) {
    const Node& node = nodes_[at];
    if (node.string != kNone) longest = {begin, end, node.string};
    if (end == size) return longest;
    const Edge* const first = edges_.data() + node.first_edge;
    const Edge* const last = first + node.num_edges;
    const Edge* const edge = std::lower_bound(first, last, text[end],
                                              [](const Edge& one, uint8_t byte) { return one.byte < byte; });
    if (edge == last || edge->byte != text[end]) return longest;
    at = edge->node;
  }
}

}  // namespace tokcore
