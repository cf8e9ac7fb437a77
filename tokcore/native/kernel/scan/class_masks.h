// DESCRIPTION
// ClassMasks holds the classes of 64 bytes of text for the wide scanners: one bit per byte and class, lowest
// bit first. Each byte of a character has the character's class. Bits past the end of the known text are 0.
#pragma once

#include <cstdint>

namespace tokcore {

inline constexpr uint32_t kWordBytes = 64;

struct ClassMasks {
  uint64_t letter;
  uint64_t number;
  uint64_t space;       // White_Space, line ends included
  uint64_t other;       // none of the three above; for o200k and tekken not a mark either; for deepseek P, S
  uint64_t line_end;    // CR, LF
  uint64_t blank;       // U+0020
  uint64_t apostrophe;  // U+0027
  uint64_t continuation;  // all bytes of a character except the first
  // Set only for o200k and tekken; mark for deepseek, too.
  uint64_t mark;
  uint64_t upper;  // Lu, Lt
  uint64_t lower;  // Ll
  uint64_t slash;
  // Set only for deepseek.
  uint64_t ascii_letter;
  uint64_t han_or_kana;  // U+4E00 to U+9FA5, U+3040 to U+30FF: these are in another class, too
  uint64_t odd;          // in no class: control, format and unassigned characters
};

}  // namespace tokcore
