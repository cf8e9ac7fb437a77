// DESCRIPTION
// CharacterTrie finds all pieces that end at a character of a text, and their scores, in one walk over the
// text (Aho and Corasick 1975). Characters are numbered, the most frequent first, so that a step is a
// character, not a byte; a text is translated once. A node is a unit of a double array, which holds all that
// a step needs, and those of likely pieces lie close together. Pieces that are not UTF-8 match nothing.
// Thread-safe once built.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string_view>
#include <vector>

#include "encode/piece_vocabulary.h"
#include "memory/number_table.h"
#include "memory/zeroed_memory.h"

namespace tokcore {

class CharacterTrie {
 public:
  static constexpr float kNoScore = -std::numeric_limits<float>::infinity();
  static constexpr uint32_t kNoCharacter = 0;  // the number of those that no piece has

  struct Entry {
    std::string_view text;  // not empty
    uint32_t piece;
    float score;  // finite
  };

  // A node: the start of some piece.
  struct alignas(32) Unit {
    uint32_t character;       // that leads here; kFree if none does
    uint32_t first;           // where children begin; kDead if there are none
    uint32_t children;        // a bit for each character that leads on, by the lowest bits of its number
    uint32_t suffix;          // the node of its longest suffix that has children
    float score;              // of the piece that this is; kNoScore if it is none
    uint32_t num_characters;  // in it
    uint32_t shorter;         // its longest suffix that is a piece; kRoot if none is
    uint32_t piece;

    bool may_lead_on(uint32_t number) const { return (children >> number % 32 & 1) != 0; }
  };

  // entries: all of different text. False if they are too many. Throws std::bad_alloc.
  bool build(const std::vector<Entry>& entries);

  // The numbers of a text's characters, at most one for each byte. Returns how many there are.
  size_t translate(const uint8_t* text, size_t size, uint32_t* out) const {
    uint32_t* end = out;
    for (size_t i = 0; i < size;) {
      if (text[i] < 0x80) {
        *end++ = of_ascii_[text[i++]];
      } else {
        const size_t width = character_bytes(text + i, size - i);
        *end++ = number_of(text + i, width);
        i += width;
      }
    }
    return static_cast<size_t>(end - out);
  }

  static constexpr uint32_t kRoot = 0;
  const Unit* units() const { return units_; }

  // The node of the longest start of a piece that a text ends with, after one more character. Where
  // may_lead_on() says no, which is so of most nodes that do not lead on, no other memory is touched.
  uint32_t next(uint32_t node, uint32_t character) const {
    for (;; node = units_[node].suffix) {
      const Unit& unit = units_[node];
      if (unit.may_lead_on(character)) {
        const uint32_t place = unit.first + character;
        if (units_[place].character == character) return place;
      }
      if (node == kRoot) return kRoot;
    }
  }
  // The longest piece that a node ends with; kRoot if there is none.
  uint32_t longest(uint32_t node) const {
    return units_[node].score != kNoScore ? node : units_[node].shorter;
  }

 private:
  class Builder;
  static constexpr uint32_t kDead = 0;
  static constexpr uint32_t kFree = UINT32_MAX;

  // 2 to 4 bytes, or 1 that is no character.
  uint32_t number_of(const uint8_t* character, size_t size) const {
    if (size == 2 && (character[1] & 0xC0) == 0x80)
      return of_plane_[(character[0] & 0x1Fu) << 6 | (character[1] & 0x3Fu)];
    if (size == 3 && (character[1] & 0xC0) == 0x80 && (character[2] & 0xC0) == 0x80) {
      const uint32_t code_point =
          (character[0] & 0x0Fu) << 12 | (character[1] & 0x3Fu) << 6 | (character[2] & 0x3Fu);
      return code_point < 0x800 ? kNoCharacter : of_plane_[code_point];
    }
    return size == 4 ? number_of_four(character) : kNoCharacter;
  }
  uint32_t number_of_four(const uint8_t* character) const {
    const uint32_t number = of_four_.find(pack(character));
    return number == NumberTable::kNone ? kNoCharacter : number;
  }
  static uint32_t pack(const uint8_t* four) {
    return uint32_t{four[0]} << 24 | uint32_t{four[1]} << 16 | uint32_t{four[2]} << 8 | four[3];
  }
  std::vector<Entry> number_characters(const std::vector<Entry>& entries);

  uint32_t of_ascii_[128] = {};
  std::vector<uint32_t> of_plane_;  // by code point, up to U+FFFF
  NumberTable of_four_;             // of characters of four bytes
  size_t num_characters_ = 1;
  const Unit* units_ = nullptr;
  ZeroedMemory unit_memory_;  // num_characters_ more than the last that is used
};

}  // namespace tokcore
