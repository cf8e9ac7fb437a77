// DESCRIPTION
// CharacterTrie finds all pieces that end at a character of a text, and their scores, in one walk over the
// text (Aho and Corasick 1975). Characters are numbered, the most frequent first, so that a step is a
// character, not a byte; a text is translated once. Many texts are walked over side by side: a step has no
// branch on what the texts say, so while one waits for memory, others go on. A node is a unit of a double
// array. What ends at a node is a list of four pieces; the nodes and the lists of likely pieces lie close
// together. Pieces that are not UTF-8 match nothing. Thread-safe once built.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string_view>
#include <vector>

#include "memory/number_table.h"
#include "memory/zeroed_memory.h"
#include "sentencepiece/piece_vocabulary.h"

namespace tokcore {

class CharacterTrie {
 public:
  static constexpr float kNoScore = -std::numeric_limits<float>::infinity();
  static constexpr uint32_t kNoCharacter = 0;  // the number of those that no piece has
  static constexpr uint32_t kUnknown = UINT32_MAX;

  struct Entry {
    std::string_view text;  // not empty
    uint32_t piece;
    float score;  // finite
  };

  // What ends at a character, the longest first; last, where no piece is that character, kUnknown. Behind
  // them, kNoScore and width 1.
  static constexpr uint32_t kListed = 4;
  static constexpr uint32_t kGoesOn = uint32_t{1} << 31;  // in the last width: another list follows
  struct alignas(32) Ends {
    float scores[kListed];
    uint32_t widths[kListed];  // in characters

    uint32_t last_width() const { return widths[kListed - 1] & ~kGoesOn; }
    bool goes_on() const { return (widths[kListed - 1] & kGoesOn) != 0; }
  };

  // entries: all of different text. unknown_score: of a character that is no piece. False if they are too
  // many. Throws std::bad_alloc.
  bool build(const std::vector<Entry>& entries, float unknown_score);

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

  // A walk over a text. Characters and what ends at them are counted over all texts that are walked over
  // together.
  struct Walker {
    uint32_t first, suffix;  // of its node
    size_t at, end;          // the next character, and where its text ends
  };
  Walker walker(size_t begin, size_t end) const { return {nodes_[kRoot].first, kRoot, begin, end}; }

  // Writes for each character the number of the list of what ends there. walkers: of texts that are not
  // empty; used up. characters: numbers, and one more.
  void walk(std::vector<Walker>* walkers, const uint32_t* characters, uint32_t* ends) const;

  const Ends* lists() const { return lists_; }
  // The list after one that goes on.
  uint32_t next_list(uint32_t list) const { return next_lists_[list]; }
  // By list and place in it: a piece, or kUnknown.
  const uint32_t* pieces() const { return pieces_; }
  uint32_t width(uint32_t slot) const { return lists_[slot / kListed].widths[slot % kListed] & ~kGoesOn; }

 private:
  class Builder;
  static constexpr uint32_t kRoot = 0;
  static constexpr uint32_t kFree = UINT32_MAX;

  // The start of some piece. One without children leads on as its suffix does.
  struct alignas(16) Node {
    uint32_t character;  // that leads here; kFree if none does
    uint32_t first;      // where children begin
    uint32_t suffix;     // the node of its longest suffix that has children
    uint32_t ends;       // the list of what ends here
  };

  // 2 to 4 bytes, or 1 that is no character.
  uint32_t number_of(const uint8_t* character, size_t size) const {
    if (size == 2 && character[0] < 0xE0 && (character[1] & 0xC0) == 0x80)
      return of_plane_[(character[0] & 0x1Fu) << 6 | (character[1] & 0x3Fu)];
    if (size == 3 && character[0] < 0xF0 && (character[1] & 0xC0) == 0x80 && (character[2] & 0xC0) == 0x80) {
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
  const Node* nodes_ = nullptr;  // num_characters_ more than the last that is used
  const Ends* lists_ = nullptr;
  const uint32_t* pieces_ = nullptr;
  std::vector<uint32_t> next_lists_;
  ZeroedMemory memory_;  // all in one block, so that it is in large pages
};

}  // namespace tokcore
