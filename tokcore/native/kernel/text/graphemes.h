// DESCRIPTION
// Graphemes, the characters that a reader takes for one, as tokenizers 0.23.3 has them. Here consonants that
// a virama joins are several graphemes; that can be seen only where a mark of two bytes follows them. A byte
// that is no part of a character is a grapheme of its own. Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tokcore {

enum class GraphemeClass : uint8_t {
  kOther,
  kJoiner,  // belongs to the character before it
  kZeroWidthJoiner,
  kPrepend,  // belongs to the character after it
  kControl,  // stands alone
  kLeading,  // parts of a Hangul syllable, and syllables
  kVowel,
  kTrailing,
  kSyllable,
  kClosedSyllable,
  kFlag,  // one of two letters
  kPictograph
};

struct GraphemeRange {
  uint32_t first, last;
  GraphemeClass grapheme_class;
};
extern const GraphemeRange kGraphemeRanges[];  // ascending
extern const size_t kNumGraphemeRanges;

GraphemeClass grapheme_class_of(uint32_t code_point);

// The bytes of the grapheme that text begins with. size > 0.
size_t grapheme_bytes(const uint8_t* text, size_t size);

}  // namespace tokcore
