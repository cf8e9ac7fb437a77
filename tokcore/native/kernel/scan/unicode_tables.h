// DESCRIPTION
// The character classes that split patterns refer to, for every code point of one pinned Unicode version. A
// class is a set of bits. A lookup is two dependent loads from 32 KB.
// generate_unicode_tables.py writes unicode_tables.cpp; it names its source and checks it.
#pragma once

#include <cstdint>

namespace tokcore::unicode {

enum ClassBit : uint8_t {
  kLetter = 1,  // L
  kNumber = 2,  // N
  kSpace = 4,   // White_Space
  kMark = 8,    // M
  kUpper = 16,  // Lu, Lt
  kLower = 32,  // Ll; Lm and Lo are letters without a case bit
  kSign = 64,   // P, S
};

inline constexpr uint32_t kMaxCodePoint = 0x10FFFF;

extern const char kVersion[];
extern const char kTablesSha256[];  // of all data that tokcore derives from Unicode: tokcore/text/unicode.py
extern const uint8_t kLeafOfBlock[(kMaxCodePoint >> 8) + 1];
extern const uint8_t kLeaves[][256];  // the first is that of U+0000 to U+00FF

// The same for U+0000 to U+FFFF, 64 characters to a row: bit code_point % 64 of
// kRows[kRowOf64[code_point / 64]][k] is set if the character has class bit 1 << k.
extern const uint16_t kRowOf64[1024];
extern const uint64_t kRows[][7];

// code_point must be at most kMaxCodePoint. Internal linkage, because the sources that include it are
// compiled for different processors.
static inline uint8_t class_of(uint32_t code_point) {
  return kLeaves[kLeafOfBlock[code_point >> 8]][code_point & 0xFF];
}

}  // namespace tokcore::unicode
