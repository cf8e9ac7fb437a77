#include "text/composition.h"

#include <algorithm>

namespace tokcore {
namespace {

constexpr uint32_t kLeadingFirst = 0x1100, kLeadingLast = 0x1112;
constexpr uint32_t kVowelFirst = 0x1161, kVowelLast = 0x1175;
constexpr uint32_t kTrailingFirst = 0x11A8, kTrailingLast = 0x11C2;
constexpr uint32_t kSyllableFirst = 0xAC00, kSyllableLast = 0xD7A3;
constexpr uint32_t kSyllablesPerPair = 28;

bool is_within(uint32_t character, uint32_t first, uint32_t last) {
  return character - first <= last - first;
}

uint64_t slot_of(uint64_t pair, size_t num_slots) {
  return (pair * 0x9E3779B97F4A7C15u >> 32) & (num_slots - 1);
}

uint64_t pair_of(uint32_t left, uint32_t right) { return uint64_t{left} << 32 | right; }

}  // namespace

const NfcCheck& NfcCheck::get() {
  static const NfcCheck check;
  return check;
}

NfcCheck::NfcCheck() : pages_(0x110000 / kPageSize, 0), values_(kPageSize, 0), pairs_(kNumSlots, 0) {
  for (size_t i = 0; i < kNumCombiningRanges; ++i) {
    const CombiningRange& range = kCombiningRanges[i];
    for (uint32_t c = range.first; c <= range.last; ++c) set(c, range.combining_class);
  }
  for (size_t i = 0; i < kNumTrailingRanges; ++i) {
    const CombiningRange& range = kTrailingRanges[i];
    for (uint32_t c = range.first; c <= range.last; ++c)
      set(c, uint32_t{range.combining_class} << kTrailingShift);
  }
  for (size_t i = 0; i < kNumComposingPairs; ++i) {
    const ComposingPair& pair = kComposingPairs[i];
    set(pair.right, look_up(pair.right) | kIsRight);
    size_t slot = slot_of(pair_of(pair.left, pair.right), kNumSlots);
    while (pairs_[slot] != 0) slot = (slot + 1) % kNumSlots;
    pairs_[slot] = pair_of(pair.left, pair.right);
  }
  for (uint32_t c = kVowelFirst; c <= kVowelLast; ++c) set(c, kIsRight);
  for (uint32_t c = kTrailingFirst; c <= kTrailingLast; ++c) set(c, kIsRight);
}

void NfcCheck::set(uint32_t character, uint32_t bits) {
  uint8_t& page = pages_[character / kPageSize];
  if (page == 0) {
    page = static_cast<uint8_t>(values_.size() / kPageSize);
    values_.resize(values_.size() + kPageSize, 0);
  }
  values_[size_t{page} * kPageSize + character % kPageSize] = bits;
}

bool NfcCheck::composes(uint32_t left, uint32_t right) const {
  if (is_within(right, kVowelFirst, kVowelLast)) return is_within(left, kLeadingFirst, kLeadingLast);
  if (is_within(right, kTrailingFirst, kTrailingLast))
    return is_within(left, kSyllableFirst, kSyllableLast) && (left - kSyllableFirst) % kSyllablesPerPair == 0;
  const uint64_t pair = pair_of(left, right);
  for (size_t slot = slot_of(pair, kNumSlots); pairs_[slot] != 0; slot = (slot + 1) % kNumSlots) {
    if (pairs_[slot] == pair) return true;
  }
  return false;
}

// False if a text with this character next is not in NFC.
inline bool NfcCheck::take(uint32_t character, State* state) const {
  const uint32_t value = look_up(character), combining_class = value & 255;
  if (combining_class == kNever) return false;
  if (combining_class != 0 && combining_class < state->last_class) return false;
  if ((value & kIsRight) != 0) {
    if (combining_class != 0 && combining_class < state->trailing_class) return false;
    // A mark of the same class, or anything before a character of class 0, keeps it from the letter.
    const bool is_next = state->last_class == 0 || state->last_class < combining_class;
    if (is_next && composes(state->starter, character)) return false;
  }
  if (combining_class == 0) {
    *state = {character, 0, value >> kTrailingShift};
  } else {
    state->last_class = combining_class;
  }
  return true;
}

template <typename Unit>
bool NfcCheck::holds_units(const Unit* units, size_t num_units) const {
  constexpr size_t kBlock = 16;
  State state;
  for (size_t i = 0; i < num_units;) {
    if (num_units - i >= kBlock) {
      Unit others = 0;
      for (size_t k = 0; k < kBlock; ++k) others |= static_cast<Unit>(units[i + k] >= kFirstOther);
      if (others == 0) {
        i += kBlock;
        state = {units[i - 1], 0, look_up(units[i - 1]) >> kTrailingShift};
        continue;
      }
    }
    const size_t end = std::min(i + kBlock, num_units);
    // Most are letters that nothing joins: then only the last one matters. Without branches, their look-ups
    // overlap.
    uint32_t all = 0;
    for (size_t k = i; k < end; ++k) all |= look_up(units[k]);
    if (all == 0) {
      state = {units[end - 1], 0, 0};
      i = end;
    }
    for (; i < end; ++i) {
      if (!take(units[i], &state)) return false;
    }
  }
  return true;
}

bool NfcCheck::holds_utf8(const uint8_t* text, size_t size) const {
  State state;
  for (size_t i = 0; i < size;) {
    if (text[i] < 0x80) {
      for (uint64_t eight; i + sizeof(eight) <= size; i += sizeof(eight)) {
        std::memcpy(&eight, text + i, sizeof(eight));
        if ((eight & 0x8080808080808080u) != 0) break;
      }
      while (i < size && text[i] < 0x80) ++i;
      state = {text[i - 1], 0, 0};
      continue;
    }
    const size_t length = text[i] < 0xE0 ? 2 : text[i] < 0xF0 ? 3 : 4;
    if (text[i] < 0xC2 || text[i] > 0xF4 || length > size - i) return false;
    uint32_t character = text[i] & (0x7Fu >> length);
    for (size_t k = 1; k < length; ++k) {
      if ((text[i + k] & 0xC0) != 0x80) return false;
      character = character << 6 | (text[i + k] & 0x3F);
    }
    constexpr uint32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
    if (character < kLeast[length] || character > 0x10FFFF || is_within(character, 0xD800, 0xDFFF))
      return false;
    if (!take(character, &state)) return false;
    i += length;
  }
  return true;
}

bool NfcCheck::holds(const StringView& text) const {
  switch (text.encoding) {
    case Encoding::kUtf8:
      return holds_utf8(static_cast<const uint8_t*>(text.data), text.num_units);
    case Encoding::kLatin1:
      break;  // each of these characters is in NFC, and no two compose
    case Encoding::kUcs2:
      return holds_units(static_cast<const uint16_t*>(text.data), text.num_units);
    case Encoding::kUcs4:
      return holds_units(static_cast<const uint32_t*>(text.data), text.num_units);
  }
  return true;
}

}  // namespace tokcore
