// DESCRIPTION
// NfcCheck tells whether text is in Unicode's form NFC already, so that it can be left as it is and where it
// is. Exact, for well-formed text: no character that never stands in NFC, marks in the order of their
// classes, and no pair that would be one character. Linear, one look-up for a character beyond U+02FF.
// Immutable, so thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "text/utf8_writer.h"

namespace tokcore {

struct CombiningRange {
  uint32_t first;
  uint32_t last;
  uint8_t combining_class;  // 255: a character that never stands in NFC
};
extern const CombiningRange kCombiningRanges[];
extern const size_t kNumCombiningRanges;
extern const CombiningRange kTrailingRanges[];  // of letters with marks, the class of the last mark
extern const size_t kNumTrailingRanges;

struct ComposingPair {  // without Hangul's, which follow a rule
  uint32_t left;
  uint32_t right;
};
extern const ComposingPair kComposingPairs[];
extern const size_t kNumComposingPairs;

class NfcCheck {
 public:
  static const NfcCheck& get();

  // False also for UTF-8 that is not well-formed. A surrogate counts as a letter.
  bool holds(const StringView& text) const;

 private:
  // What has been read of a text matters only by its last character of class 0 and the class of its last one.
  struct State {
    uint32_t starter = 0;
    uint32_t last_class = 0;
    uint32_t trailing_class = 0;  // of the starter's own last mark
  };

  NfcCheck();
  void set(uint32_t character, uint32_t bits);
  uint32_t look_up(uint32_t character) const {
    return values_[size_t{pages_[character / kPageSize]} * kPageSize + character % kPageSize];
  }
  bool composes(uint32_t left, uint32_t right) const;
  bool take(uint32_t character, State* state) const;
  template <typename Unit>
  bool holds_units(const Unit* units, size_t num_units) const;
  bool holds_utf8(const uint8_t* text, size_t size) const;

  static constexpr uint32_t kPageSize = 128;
  static constexpr uint32_t kNever = 255;
  static constexpr uint32_t kIsRight = 256;  // some pair ends with it
  static constexpr int kTrailingShift = 16;
  static constexpr uint32_t kFirstOther = 0x300;
  static constexpr size_t kNumSlots = 4096;

  std::vector<uint8_t> pages_;    // by character: its page among values_; page 0 is all zeros
  std::vector<uint32_t> values_;  // its class, kIsRight, and the class of its own last mark
  std::vector<uint64_t> pairs_;   // left and right; open addressing
};

}  // namespace tokcore
