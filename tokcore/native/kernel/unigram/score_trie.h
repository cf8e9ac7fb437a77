// DESCRIPTION
// ScoreTrie finds all pieces that a text begins with, and their scores: a double array of eight bytes a unit,
// because what a walk costs is how often it leaves the processor's nearest cache. Pieces of high scores lie
// close together. A walk that leaves the pieces may take one step more, to a unit without a piece.
// Thread-safe once built.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string_view>
#include <vector>

namespace tokcore {

class ScoreTrie {
 public:
  static constexpr float kNoScore = -std::numeric_limits<float>::infinity();

  struct Entry {
    std::string_view text;  // not empty
    uint32_t piece;
    float score;  // finite
  };

  struct Unit {
    uint32_t link;  // where children begin; its lowest 8 bits: the byte that leads here
    float score;    // of the piece that ends here; kNoScore if none does

    uint32_t first() const { return link >> 8; }
    bool is_reached_by(uint8_t byte) const { return static_cast<uint8_t>(link) == byte; }
  };

  // A piece, by the place of the unit where it ends.
  struct Ended {
    uint32_t piece;
    uint32_t size;  // bytes
  };

  // entries: all of different text. False if they are too many: a unit has 24 bits for the place of its
  // children. Throws std::bad_alloc.
  bool build(std::vector<Entry> entries);

  // The unit that a byte may lead to from a unit whose children begin at `first` is units()[first + byte].
  const Unit* units() const { return units_.data(); }
  size_t num_units() const { return units_.size(); }
  uint32_t root() const { return root_; }
  static constexpr uint32_t kDead = 0;  // where children of a unit without any begin: no byte leads to one
  const Ended& ended(uint32_t place) const { return ended_[place]; }

 private:
  class Builder;

  std::vector<Unit> units_;  // always 256 more than the last that is used
  std::vector<Ended> ended_;
  uint32_t root_ = 0;
};

}  // namespace tokcore
