// DESCRIPTION
// Charsmap is a SentencePiece model's own table of replacements, as the model holds it: a double array (of
// Darts) of what is replaced, and the texts that replace it, each ended by a zero. Thread-safe once built.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tokcore {

class Charsmap {
 public:
  // The bytes of precompiled_charsmap, which may be empty. False if it is none, or if a walk through it could
  // leave it. Throws std::bad_alloc.
  bool build(const uint8_t* data, size_t size);

  struct Found {
    size_t size;  // of what is replaced; 0 if nothing is
    const uint8_t* text;
    size_t text_size;
  };

  // The longest rule for the start of text, of the kMaxRules shortest.
  Found find(const uint8_t* text, size_t size) const { return find_among(text, size, kMaxRules); }
  // The shortest; a zero byte ends the text.
  Found find_shortest(const uint8_t* text, size_t size) const {
    for (size_t i = 0; i < size; ++i) {
      if (text[i] == 0) size = i;
    }
    return find_among(text, size, 1);
  }

  // Whether some rule begins with that byte.
  bool begins(uint8_t byte) const { return !units_.empty() && begins_[byte]; }
  // What rules begin with a character of several bytes: none, one for it alone, or only longer ones, whose
  // next bytes are then marked.
  enum class Rules : uint8_t { kNone, kOwn, kLonger };
  Rules find_rules(const uint8_t* character, size_t size, bool is_next[256]) const;
  // Whether some rule is for these two bytes, longer, or for the first alone.
  bool may_replace(uint8_t first, uint8_t second) const;

 private:
  static constexpr size_t kMaxRules = 32;

  // A unit of the double array.
  static bool has_leaf(uint32_t unit) { return (unit >> 8 & 1) != 0; }
  static uint32_t label(uint32_t unit) { return unit & (uint32_t{1} << 31 | 0xFF); }
  static uint32_t value(uint32_t unit) { return unit & ~(uint32_t{1} << 31); }
  static uint32_t offset(uint32_t unit) { return (unit >> 10) << ((unit & uint32_t{1} << 9) >> 6); }
  static bool is_leaf(uint32_t unit) { return label(unit) > 0xFF; }

  bool is_sound() const;
  Found find_among(const uint8_t* text, size_t size, size_t max_rules) const;

  std::vector<uint32_t> units_;
  std::vector<uint8_t> texts_;
  bool begins_[256] = {};
};

}  // namespace tokcore
