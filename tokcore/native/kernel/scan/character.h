// DESCRIPTION
// Character is one decoded character of UTF-8 text, with its classes. A byte outside of every well-formed
// sequence (Unicode, table 3-7: no overlong forms, no surrogates, nothing above U+10FFFF) is a character of
// one byte without classes. The end of the text is a character of size 0 without classes. Everything here has
// internal linkage, because the sources that include it are compiled for different processors.
#pragma once

#include <cstddef>
#include <cstdint>

#include "scan/unicode_tables.h"

namespace tokcore {

// Stands for the code point of a malformed byte and of the end of the text.
static constexpr uint32_t kNoCodePoint = 0xFFFFFFFF;

struct Character {
  uint32_t code_point;
  uint8_t size;     // in bytes; 0 at the end of the text
  uint8_t classes;  // of unicode::ClassBit

  bool is(uint8_t any_of) const { return (classes & any_of) != 0; }
  bool at_end() const { return size == 0; }
};

// A code point and its size in bytes; kNoCodePoint and 1 of a malformed byte.
struct CodePoint {
  uint32_t value;
  uint8_t size;
};

// That at a position before the end whose byte is not ASCII.
[[maybe_unused]] static inline CodePoint multibyte_code_point_at(const uint8_t* text, size_t size,
                                                                 size_t position) {
  const CodePoint malformed{kNoCodePoint, 1};
  const uint8_t lead = text[position];
  const size_t left = size - position;
  const auto tail = [&](size_t i) { return static_cast<uint32_t>(text[position + i] & 0x3F); };
  const auto continues = [&](size_t i, uint8_t low, uint8_t high) {
    return i < left && text[position + i] >= low && text[position + i] <= high;
  };
  if (lead < 0xC2 || lead > 0xF4) return malformed;
  if (lead < 0xE0) {
    if (!continues(1, 0x80, 0xBF)) return malformed;
    return {(lead & 0x1Fu) << 6 | tail(1), 2};
  }
  if (lead < 0xF0) {
    if (!continues(1, lead == 0xE0 ? 0xA0 : 0x80, lead == 0xED ? 0x9F : 0xBF) || !continues(2, 0x80, 0xBF)) {
      return malformed;
    }
    return {(lead & 0x0Fu) << 12 | tail(1) << 6 | tail(2), 3};
  }
  if (!continues(1, lead == 0xF0 ? 0x90 : 0x80, lead == 0xF4 ? 0x8F : 0xBF) || !continues(2, 0x80, 0xBF) ||
      !continues(3, 0x80, 0xBF)) {
    return malformed;
  }
  return {(lead & 0x07u) << 18 | tail(1) << 12 | tail(2) << 6 | tail(3), 4};
}

[[maybe_unused]] static inline Character multibyte_character_at(const uint8_t* text, size_t size,
                                                                size_t position) {
  const CodePoint found = multibyte_code_point_at(text, size, position);
  const bool is_malformed = found.value == kNoCodePoint;
  return {found.value, found.size, is_malformed ? uint8_t{0} : unicode::class_of(found.value)};
}

// position must be at most size.
[[maybe_unused]] static inline Character character_at(const uint8_t* text, size_t size, size_t position) {
  if (position >= size) return {kNoCodePoint, 0, 0};
  const uint8_t byte = text[position];
  if (byte < 0x80) return {byte, 1, unicode::kLeaves[0][byte]};
  return multibyte_character_at(text, size, position);
}

}  // namespace tokcore
