// DESCRIPTION
// What BERT's normalizer and pre-tokenizer do to each code point, as tokenizers 0.23.3 does it. The tables
// are written by generate_bert_tables.py.
#pragma once

#include <cstdint>

namespace tokcore::bert {

// What becomes of a code point. From kMark on it stays, and is sorted among its neighbours by value - kMark.
// From kReplaced on, value - kReplaced is the number of its replacement.
constexpr uint16_t kStays = 0;
constexpr uint16_t kRemoved = 1;
constexpr uint16_t kRemovedStarter = 2;  // removed, but marks are not sorted across it
constexpr uint16_t kSpace = 3;           // becomes a blank
constexpr uint16_t kSurrounded = 4;      // gets a blank before it and after it
constexpr uint16_t kHangul = 5;          // a syllable becomes its parts
constexpr uint16_t kMark = 8;
constexpr uint16_t kReplaced = 512;

// Classes of the split pattern.
constexpr uint8_t kWord = 0;
constexpr uint8_t kWhite = 1;
constexpr uint8_t kAlone = 2;  // a pre-token of its own

extern const uint16_t kLowerLeafOfBlock[];
extern const uint16_t kLowerLeaves[][256];
extern const uint16_t kCasedLeafOfBlock[];
extern const uint16_t kCasedLeaves[][256];
extern const uint16_t kClassLeafOfBlock[];
extern const uint8_t kClassLeaves[][256];

// Replacement i is kReplacements[kReplacementStarts[i] .. kReplacementStarts[i + 1]). The first ones hold no
// marks that are sorted.
extern const uint16_t kNumPlainReplacements;
extern const uint32_t kReplacementStarts[];
extern const uint8_t kReplacements[];

inline uint8_t class_of(uint32_t code_point) {
  return kClassLeaves[kClassLeafOfBlock[code_point >> 8]][code_point & 0xFF];
}

}  // namespace tokcore::bert
