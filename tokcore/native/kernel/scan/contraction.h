// DESCRIPTION
// The letters of English contractions, which all named patterns look for after an apostrophe.
// Internal linkage, because the sources that include it are compiled for different processors.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tokcore {

// The size in bytes of s, d, m, t, ll, ve or re at position; 0 if there is none. With fold_case also in upper
// case, and also U+017F (long s), which folds to s.
[[maybe_unused]] static inline size_t contraction_size(const uint8_t* text, size_t size, size_t position,
                                                       bool fold_case) {
  const auto letter = [&](size_t i) -> uint8_t {
    if (i >= size) return 0;
    const uint8_t byte = text[i];
    return fold_case && byte >= 'A' && byte <= 'Z' ? byte + ('a' - 'A') : byte;
  };
  const uint8_t second = letter(position + 1);
  switch (letter(position)) {
    case 's':
    case 'd':
    case 'm':
    case 't':
      return 1;
    case 'l':
      return second == 'l' ? 2 : 0;
    case 'v':
    case 'r':
      return second == 'e' ? 2 : 0;
    case 0xC5:
      return fold_case && second == 0xBF ? 2 : 0;
    default:
      return 0;
  }
}

}  // namespace tokcore
