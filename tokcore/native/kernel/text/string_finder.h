// DESCRIPTION
// StringFinder finds where texts spell one of some strings, such as the added tokens of a tokenizer: the
// leftmost, of several that begin there the longest; the search goes on after it. At most places two bytes of
// the text tell that no string begins there. A walk through the trie of the strings takes time for each byte
// that it follows, so a text takes at most its length times that of the longest string. Any bytes are fine.
// Safe to share between threads.
#pragma once

#include <bitset>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace tokcore {

struct FoundString {
  size_t start;
  size_t end;
  uint32_t string;  // its number
};

class StringFinder {
 public:
  // Returns the number of the first string that is empty or equal to an earlier one; of none, num_strings.
  // Then find may be called. offsets: num_strings + 1, ascending, within data; fewer than 2^31 bytes.
  size_t build(const uint8_t* data, const int64_t* offsets, size_t num_strings);

  // Appends what the text spells, in order.
  void find(const uint8_t* text, size_t size, std::vector<FoundString>* found) const;

 private:
  static constexpr uint32_t kNone = ~uint32_t{0};

  // What follows a string's beginning. The edges of a node lie side by side.
  struct Edge {
    uint8_t byte;
    uint32_t node;
  };
  struct Node {
    uint32_t first_edge;
    uint32_t num_edges;
    uint32_t string;  // that ends here; kNone if none does
  };

  FoundString walk(const uint8_t* text, size_t begin, size_t size) const;

  std::bitset<size_t{1} << 16> pairs_;  // the two bytes, the first lowest, that a string may begin with
  std::bitset<256> alone_;              // the strings of one byte
  uint32_t first_nodes_[256];
  std::vector<Node> nodes_;
  std::vector<Edge> edges_;
};

}  // namespace tokcore
