// DESCRIPTION
// PieceTrie finds all pieces that a text begins with: a double array, whose units hold the piece's number and
// score, so that each byte of text costs one load. Thread-safe once built.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

namespace tokcore {

class PieceTrie {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;
  static constexpr uint32_t kRoot = 0;

  struct Entry {
    std::string_view text;  // not empty
    uint32_t piece;
    float score;
  };

  // entries: all of different text. Throws std::bad_alloc.
  void build(std::vector<Entry> entries);

  bool empty() const { return units_.empty(); }

  // The node that this byte leads to; kNone if there is none.
  uint32_t child(uint32_t node, uint8_t byte) const {
    const uint32_t at = units_[node].base + byte;
    return units_[at].parent == node ? at : kNone;
  }
  uint32_t piece(uint32_t node) const { return units_[node].piece; }  // kNone if none ends here
  float score(uint32_t node) const { return units_[node].score; }

  // The longest piece at the start of text, of the first `max_found` that are found: (its size, its number),
  // or (0, kNone).
  std::pair<size_t, uint32_t> longest(const uint8_t* text, size_t size, size_t max_found) const {
    std::pair<size_t, uint32_t> found{0, kNone};
    uint32_t node = kRoot;
    for (size_t i = 0; i < size && max_found > 0 && (node = child(node, text[i])) != kNone; ++i) {
      if (units_[node].piece == kNone) continue;
      found = {i + 1, units_[node].piece};
      --max_found;
    }
    return found;
  }

 private:
  struct Unit {
    uint32_t base;
    uint32_t parent;
    uint32_t piece;
    float score;
  };
  class Builder;

  std::vector<Unit> units_;  // always 256 more than the last that is used
};

}  // namespace tokcore
