#include "text/graphemes.h"

#include <algorithm>

#include "scan/character.h"

namespace tokcore {

GraphemeClass grapheme_class_of(uint32_t code_point) {
  constexpr uint32_t kFirstSyllable = 0xAC00, kLastSyllable = 0xD7A3, kNumFinals = 28;
  if (code_point >= kFirstSyllable && code_point <= kLastSyllable) {
    return (code_point - kFirstSyllable) % kNumFinals == 0 ? GraphemeClass::kSyllable
                                                           : GraphemeClass::kClosedSyllable;
  }
  const GraphemeRange* const end = kGraphemeRanges + kNumGraphemeRanges;
  const GraphemeRange* const range =
      std::partition_point(kGraphemeRanges, end, [&](const GraphemeRange& r) { return r.last < code_point; });
  return range != end && range->first <= code_point ? range->grapheme_class : GraphemeClass::kOther;
}

namespace {

bool is_hangul_pair(GraphemeClass left, GraphemeClass right) {
  using enum GraphemeClass;
  if (left == kLeading)
    return right == kLeading || right == kVowel || right == kSyllable || right == kClosedSyllable;
  if (left == kSyllable || left == kVowel) return right == kVowel || right == kTrailing;
  return (left == kClosedSyllable || left == kTrailing) && right == kTrailing;
}

}  // namespace

size_t grapheme_bytes(const uint8_t* text, size_t size) {
  const Character first = character_at(text, size, 0);
  if (first.code_point == kNoCodePoint) return 1;
  if (first.code_point == '\r') return size > 1 && text[1] == '\n' ? 2 : 1;
  GraphemeClass left = grapheme_class_of(first.code_point);
  if (left == GraphemeClass::kControl) return first.size;
  size_t end = first.size;
  bool after_pictograph = left == GraphemeClass::kPictograph;  // and joiners after it
  bool is_second_letter = false;                               // of a flag
  while (end < size) {
    const Character next = character_at(text, size, end);
    if (next.code_point == kNoCodePoint) break;
    const GraphemeClass right = grapheme_class_of(next.code_point);
    if (right == GraphemeClass::kControl) break;
    const bool joins = right == GraphemeClass::kJoiner || right == GraphemeClass::kZeroWidthJoiner;
    const bool is_flag = left == GraphemeClass::kFlag && right == GraphemeClass::kFlag && !is_second_letter;
    const bool is_emoji =
        left == GraphemeClass::kZeroWidthJoiner && after_pictograph && right == GraphemeClass::kPictograph;
    if (!joins && !is_flag && !is_emoji && left != GraphemeClass::kPrepend && !is_hangul_pair(left, right))
      break;
    is_second_letter = is_flag;
    after_pictograph = right == GraphemeClass::kPictograph || (joins && after_pictograph);
    left = right;
    end += next.size;
  }
  return end;
}

}  // namespace tokcore
