// DESCRIPTION
// The wide scanner, for vectors of any width. It turns 64 bytes at a time into class masks, class masks into
// boundary masks, and the bits of those into ends. Everything has internal linkage, because the sources that
// include it are compiled for different processors. Each of them first defines, in an unnamed namespace
// within tokcore:
//   Word          64 bytes, with
//     load(bytes)             the 64 bytes at any address
//     mask<bit>()             that bit of every byte
//     at_least(b), equal(b)   a bit for each byte that is at least b; that is b
//     repeat(row)             eight bytes, eight times
//     shuffle(places)         within each eight bytes, the bytes at the given places, which are below 8
//     bits_3_to_5(), power_of_bits_0_to_2()   for each byte b: b >> 3 & 7; 1 << (b & 7)
//   look_up(word, by_low, by_high)   for each byte: by_low[its low half] & by_high[its high half]
//   common(a, b)                     a bit for each position where the bytes of a and b share a bit
//   write_ends(bits, base, ends)     writes base + the position of each bit, and returns their number; may
//                                    overwrite up to 7 elements after them
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "scan/boundary_algebra.h"
#include "scan/character.h"
#include "scan/class_masks.h"
#include "scan/scanner_portable.h"

namespace tokcore {
namespace {

constexpr size_t kMaxWords = 32;      // words classified at once; their masks fit the L1 cache
constexpr size_t kReadAhead = 4;      // bytes after a word that decoding its last character may read
constexpr size_t kMinWideBytes = 24;  // less is quicker character by character

// A copy of one word of text and the bytes that decoding reads after it, for the end of the text.
struct PaddedWord {
  alignas(64) uint8_t bytes[kWordBytes + kReadAhead];
};

// Classes of ASCII: a byte has the bits that both its low and its high half allow.
enum AsciiBit : int {
  kLetterAToO,  // 41 to 4F, 61 to 6F
  kLetterPToZ,  // 50 to 5A, 70 to 7A
  kDigit,
  kControlSpace,  // TAB, LF, VT, FF, CR
  kBlank,
  kApostrophe,
  kLineEnd,
  kSlash,
};

Word ascii_classes(const Word& text) {
  static constexpr uint8_t kLow[16] = {0x02 | 0x04 | 0x10,
                                       0x07,
                                       0x07,
                                       0x07,
                                       0x07,
                                       0x07,
                                       0x07,
                                       0x07 | 0x20,
                                       0x07,
                                       0x07 | 0x08,
                                       0x03 | 0x08 | 0x40,
                                       0x01 | 0x08,
                                       0x01 | 0x08,
                                       0x01 | 0x08 | 0x40,
                                       0x01,
                                       0x01 | 0x80};
  static constexpr uint8_t kHigh[16] = {
      0x08 | 0x40, 0, 0x10 | 0x20 | 0x80, 0x04, 0x01, 0x02, 0x01, 0x02, 0, 0, 0, 0, 0, 0, 0, 0};
  return look_up(text, kLow, kHigh);
}

// The first bytes of characters that two bytes show to be letters, so that most of Latin, Cyrillic, Han and
// Hangul needs no table. Each rule has a bit, which the first byte must ask for and the second must grant:
//   0: C4 to CA   1: D0, D1, D3, DA   2: E5 to E9, EB, EC   and any second byte
//   3: E4, B8 to BF   4: EA, B0 to BF   5: ED, 80 to 8D and 90 to 9D
//   6: C3, 80 to 8F and A0 to AF   7: C3, 90 to 9F and B0 to BF, except 97 and B7 (multiplication, division)
// If the case is wanted too, only the rules for letters without case apply: 2 to 5.
template <bool with_case>
uint64_t letter_leads(const uint8_t* bytes, const Word& text) {
  constexpr auto r = [](auto... bits) { return static_cast<uint8_t>((0 | ... | (1 << bits))); };
  static constexpr uint8_t kAsksLow[16] = {r(1),    r(1),    0,       r(1, 6, 7), r(0, 3),    r(0, 2),
                                           r(0, 2), r(0, 2), r(0, 2), r(0, 2),    r(0, 1, 4), r(2),
                                           r(2),    r(5),    0,       0};
  static constexpr uint8_t kAsksHigh[16] = {
      0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, with_case ? 0 : r(0, 6, 7), with_case ? 0 : r(1), r(2, 3, 4, 5), 0};
  static constexpr uint8_t kGrantsLow[16] = {
      r(0, 1, 2, 4, 5, 6, 7),    r(0, 1, 2, 4, 5, 6, 7),    r(0, 1, 2, 4, 5, 6, 7),
      r(0, 1, 2, 4, 5, 6, 7),    r(0, 1, 2, 4, 5, 6, 7),    r(0, 1, 2, 4, 5, 6, 7),
      r(0, 1, 2, 4, 5, 6, 7),    r(0, 1, 2, 4, 5, 6),       r(0, 1, 2, 3, 4, 5, 6, 7),
      r(0, 1, 2, 3, 4, 5, 6, 7), r(0, 1, 2, 3, 4, 5, 6, 7), r(0, 1, 2, 3, 4, 5, 6, 7),
      r(0, 1, 2, 3, 4, 5, 6, 7), r(0, 1, 2, 3, 4, 5, 6, 7), r(0, 1, 2, 3, 4, 6, 7),
      r(0, 1, 2, 3, 4, 6, 7)};
  static constexpr uint8_t kGrantsHigh[16] = {
      0, 0, 0, 0, 0, 0, 0, 0, r(0, 1, 2, 5, 6), r(0, 1, 2, 5, 7), r(0, 1, 2, 6), r(0, 1, 2, 3, 4, 7),
      0, 0, 0, 0};
  return common(look_up(text, kAsksLow, kAsksHigh), look_up(Word::load(bytes + 1), kGrantsLow, kGrantsHigh));
}

// What a word needs to know about the word before it. All are 0 or 1, except `owed`.
struct Before {
  uint64_t owed = 0;  // continuation bytes that its last character still needs, as the lowest bits
  uint64_t letter = 0, number = 0, space = 0, mark = 0, upper = 0, lower = 0, other = 0, han_or_kana = 0;
};

// Copies the bit of each character's first byte to its other bytes.
uint64_t spread(uint64_t first_bytes, uint64_t before, uint64_t continuation) {
  uint64_t all = first_bytes | (before & continuation);
  all |= all << 1 & continuation;
  all |= all << 1 & continuation;
  return all | (all << 1 & continuation);
}

// The classes of the characters of a word, at their first bytes: one mask per unicode::ClassBit, of which
// kSigns leaves out the case.
template <Detail detail>
struct Planes {
  static constexpr uint32_t kSignPlane = std::countr_zero(uint32_t{unicode::kSign});
  // Letter, number, space; the mark, too; those of case as well.
  static constexpr uint32_t kCount = detail == Detail::kNone ? 3 : detail == Detail::kSigns ? 4 : 6;
  uint64_t masks[kCount] = {};
  uint64_t sign = 0;

  void add(uint64_t classes, uint32_t bit) {
    for (uint32_t k = 0; k < kCount; ++k) masks[k] |= (classes >> k & 1) << bit;
    if constexpr (detail == Detail::kSigns) sign |= (classes >> kSignPlane & 1) << bit;
  }
};

// Classifies all characters of a word that differ only in their last bytes, and so share a row of the tables.
// The last byte selects a bit of the row; three shuffles do that for 64 characters at once.
class RowLookup {
 public:
  explicit RowLookup(const Word& last_bytes)
      : byte_(last_bytes.bits_3_to_5()), bit_(last_bytes.power_of_bits_0_to_2()) {}

  // A bit for each last byte that selects a set bit of the row.
  uint64_t selected(uint64_t row) const { return common(Word::repeat(row).shuffle(byte_), bit_); }

 private:
  Word byte_, bit_;
};

// Classifies characters of `length` bytes that start at the bits of `rest`, a row at a time. Returns the bits
// of those that are left to be classified one by one.
template <uint32_t length, Detail detail>
uint64_t add_rows(const uint8_t* bytes, const Word& text, uint64_t rest, bool* valid,
                  Planes<detail>* planes) {
  constexpr uint32_t kMinCharacters = 4;  // fewer are quicker one by one
  constexpr uint32_t kMaxRows = 6;
  if (static_cast<uint32_t>(std::popcount(rest)) < kMinCharacters) return rest;
  const RowLookup lookup(Word::load(bytes + length - 1));
  const Word second_bytes = Word::load(bytes + 1);
  for (uint32_t i = 0; i < kMaxRows && rest != 0; ++i) {
    const uint8_t* c = bytes + std::countr_zero(rest);
    uint64_t members = rest & text.equal(c[0]);
    uint32_t row = c[0] & 0x1Fu;
    if constexpr (length == 3) {
      members &= second_bytes.equal(c[1]);
      row = (c[0] & 0x0Fu) << 6 | (c[1] & 0x3Fu);
    }
    *valid &= length == 2 ? row >= 0x80 / 64 : row >= 0x800 / 64 && row / 32 != 0xD800 / 0x800;
    const uint64_t* row_planes = unicode::kRows[unicode::kRowOf64[row]];
    for (uint32_t k = 0; k < Planes<detail>::kCount; ++k) {
      if (row_planes[k] != 0) planes->masks[k] |= members & lookup.selected(row_planes[k]);
    }
    if constexpr (detail == Detail::kSigns) {
      const uint64_t signs = row_planes[Planes<detail>::kSignPlane];
      if (signs != 0) planes->sign |= members & lookup.selected(signs);
    }
    rest &= ~members;
  }
  return rest;
}

// The first bytes of U+4E00 to U+9FA5 and U+3040 to U+30FF.
uint64_t han_or_kana_leads(const uint8_t* bytes, const Word& text) {
  const uint64_t e3 = text.at_least(0xE3), e4 = text.at_least(0xE4), e5 = text.at_least(0xE5);
  const uint64_t e9 = text.at_least(0xE9), ea = text.at_least(0xEA);
  if ((e3 & ~ea) == 0) return 0;
  const Word second = Word::load(bytes + 1);
  const uint64_t kana = second.at_least(0x81) & ~second.at_least(0x84);
  const uint64_t last = ~second.at_least(0xBE) | (second.equal(0xBE) & ~Word::load(bytes + 2).at_least(0xA6));
  return (e3 & ~e4 & kana) | (e4 & ~e5 & second.at_least(0xB8)) | (e5 & ~e9) | (e9 & ~ea & last);
}

template <Detail detail>
bool add_multibyte_classes(const uint8_t* bytes, const Word& text, uint64_t high, const Before& before,
                           uint64_t* owed, ClassMasks* m) {
  const uint64_t lead = text.at_least(0xC0);
  const uint64_t lead_of_three = text.at_least(0xE0);
  const uint64_t lead_of_four = text.at_least(0xF0);
  const uint64_t continuation = high & ~lead;
  const uint64_t expected = lead << 1 | lead_of_three << 2 | lead_of_four << 3 | before.owed;
  if (expected != continuation) return false;
  *owed = lead >> 63 | lead_of_three >> 62 | lead_of_four >> 61;
  m->continuation = continuation;
  Planes<detail> planes;
  bool valid = true;
  uint64_t rest = lead & ~letter_leads<detail == Detail::kCase>(bytes, text);
  planes.masks[0] = lead & ~rest;
  if (rest != 0) {
    const uint64_t two = add_rows<2, detail>(bytes, text, rest & ~lead_of_three, &valid, &planes);
    const uint64_t three =
        add_rows<3, detail>(bytes, text, rest & lead_of_three & ~lead_of_four, &valid, &planes);
    rest = two | three | (rest & lead_of_four);
  }
  for (; rest != 0; rest &= rest - 1) {
    const uint32_t bit = static_cast<uint32_t>(std::countr_zero(rest));
    const uint8_t* c = bytes + bit;
    uint32_t code_point;
    if (c[0] < 0xE0) {
      code_point = (c[0] & 0x1Fu) << 6 | (c[1] & 0x3Fu);
      valid &= code_point >= 0x80;
    } else if (c[0] < 0xF0) {
      code_point = (c[0] & 0x0Fu) << 12 | (c[1] & 0x3Fu) << 6 | (c[2] & 0x3Fu);
      valid &= code_point >= 0x800 && code_point >> 11 != 0xD800 >> 11;
    } else {
      code_point = (c[0] & 0x0Fu) << 18 | (c[1] & 0x3Fu) << 12 | (c[2] & 0x3Fu) << 6 | (c[3] & 0x3Fu);
      valid &= code_point >= 0x10000 && code_point <= unicode::kMaxCodePoint;
      if (!valid) return false;
    }
    planes.add(unicode::class_of(code_point), bit);
  }
  if (!valid) return false;
  m->letter |= spread(planes.masks[0], before.letter, continuation);
  m->number |= spread(planes.masks[1], before.number, continuation);
  m->space |= spread(planes.masks[2], before.space, continuation);
  if constexpr (detail != Detail::kNone) m->mark |= spread(planes.masks[3], before.mark, continuation);
  if constexpr (detail == Detail::kSigns) {
    m->han_or_kana = spread(han_or_kana_leads(bytes, text), before.han_or_kana, continuation);
    m->other |= spread(planes.sign, before.other, continuation);
  }
  if constexpr (detail == Detail::kCase) {
    m->upper |= spread(planes.masks[4], before.upper, continuation);
    m->lower |= spread(planes.masks[5], before.lower, continuation);
  }
  return true;
}

// Classifies 64 bytes; kReadAhead more must be readable. False if one of them is not part of well-formed
// UTF-8, or if they do not complete the last character of the word before.
template <Detail detail>
bool classify(const uint8_t* bytes, Before* before, ClassMasks* m) {
  const Word text = Word::load(bytes);
  const Word classes = ascii_classes(text);
  const uint64_t high = text.mask<7>();
  m->letter = classes.mask<kLetterAToO>() | classes.mask<kLetterPToZ>();
  m->number = classes.mask<kDigit>();
  m->blank = classes.mask<kBlank>();
  m->space = classes.mask<kControlSpace>() | m->blank;
  m->apostrophe = classes.mask<kApostrophe>();
  m->line_end = classes.mask<kLineEnd>();
  m->continuation = 0;
  if constexpr (detail != Detail::kNone) m->mark = 0;
  if constexpr (detail == Detail::kCase) {
    m->lower = m->letter & text.mask<5>();
    m->upper = m->letter & ~m->lower;
    m->slash = classes.mask<kSlash>();
  }
  if constexpr (detail == Detail::kSigns) {
    m->ascii_letter = m->letter;
    m->han_or_kana = 0;
    m->other = text.at_least('!') & ~(high | text.equal(0x7F) | m->letter | m->number);
  }
  uint64_t owed = 0;
  if ((high | before->owed) != 0 && !add_multibyte_classes<detail>(bytes, text, high, *before, &owed, m)) {
    return false;
  }
  if constexpr (detail == Detail::kSigns) {
    m->odd = ~(m->letter | m->number | m->space | m->mark | m->other);
    before->other = m->other >> 63;
    before->han_or_kana = m->han_or_kana >> 63;
  } else {
    m->other = ~(m->letter | m->number | m->space);
    if constexpr (detail == Detail::kCase) m->other &= ~m->mark;
  }
  before->owed = owed;
  before->letter = m->letter >> 63;
  before->number = m->number >> 63;
  before->space = m->space >> 63;
  if constexpr (detail != Detail::kNone) before->mark = m->mark >> 63;
  if constexpr (detail == Detail::kCase) {
    before->upper = m->upper >> 63;
    before->lower = m->lower >> 63;
  }
  return true;
}

template <Detail detail>
void keep_bits(uint64_t bits, ClassMasks* m) {
  for (uint64_t* mask : {&m->letter, &m->number, &m->space, &m->other, &m->line_end, &m->blank,
                         &m->apostrophe, &m->continuation}) {
    *mask &= bits;
  }
  if constexpr (detail == Detail::kCase) {
    for (uint64_t* mask : {&m->mark, &m->upper, &m->lower, &m->slash}) *mask &= bits;
  }
  if constexpr (detail == Detail::kSigns) {
    for (uint64_t* mask : {&m->mark, &m->ascii_letter, &m->han_or_kana, &m->odd}) *mask &= bits;
  }
}

// Classifies up to num_words words. Returns how many bytes, whole characters, have known classes.
template <Detail detail>
size_t classify_words(const uint8_t* text, size_t size, size_t num_words, ClassMasks* masks) {
  Before before;
  size_t word = 0;
  for (; word < num_words; ++word) {
    const size_t position = word * kWordBytes;
    if (size - position >= kWordBytes + kReadAhead) [[likely]] {
      if (!classify<detail>(text + position, &before, &masks[word])) break;
    } else {
      PaddedWord padded{};
      std::memcpy(padded.bytes, text + position, size - position);
      if (!classify<detail>(padded.bytes, &before, &masks[word])) break;
    }
  }
  size_t known = word * kWordBytes < size ? word * kWordBytes : size;
  if (word != 0 && before.owed != 0) {
    // The last character ends in a word whose classes are not known: leave it out.
    do --known;
    while (masks[word - 1].continuation >> known % kWordBytes & 1);
  }
  if (word != 0 && known < word * kWordBytes) {
    const size_t last = word - 1;
    keep_bits<detail>(~uint64_t{0} >> (word * kWordBytes - known), &masks[last]);
  }
  return known;
}

// Finds the letters of all contractions (contraction.h) in a word of text at once.
template <bool fold_case>
struct ContractionFinder {
  // size: bytes up to the end of the text.
  [[gnu::noinline]] static Contractions find(const uint8_t* bytes, size_t size) {
    PaddedWord padded;
    if (size <= kWordBytes) {
      padded = {};
      std::memcpy(padded.bytes, bytes, size);
      bytes = padded.bytes;
    }
    enum : int { kDOrM, kSOrT, kL, kROrV, kE };
    constexpr auto r = [](auto... bits) { return static_cast<uint8_t>((0 | ... | (1 << bits))); };
    static constexpr uint8_t kLow[16] = {0, 0, r(kROrV), r(kSOrT), r(kDOrM, kSOrT), r(kE),    r(kROrV), 0,
                                         0, 0, 0,        0,        r(kL),           r(kDOrM), 0,        0};
    static constexpr uint8_t kFrom0 = r(kDOrM, kL, kE), kFrom10 = r(kSOrT, kROrV);  // 40 or 60, 50 or 70
    static constexpr uint8_t kHigh[16] = {
        0, 0, 0, 0, fold_case ? kFrom0 : 0, fold_case ? kFrom10 : 0, kFrom0, kFrom10, 0, 0, 0, 0, 0, 0, 0, 0};
    const Word text = Word::load(bytes);
    const Word letters = look_up(text, kLow, kHigh);
    uint8_t next = bytes[kWordBytes];
    if (fold_case && next < 0x80) next |= 0x20;
    const auto before = [&](uint64_t mask, uint8_t letter) {
      return mask >> 1 | static_cast<uint64_t>(next == letter) << 63;
    };
    const uint64_t l = letters.mask<kL>();
    uint64_t two = (l & before(l, 'l')) | (letters.mask<kROrV>() & before(letters.mask<kE>(), 'e'));
    if constexpr (fold_case) two |= text.equal(0xC5) & before(text.equal(0xBF), 0xBF);
    return {letters.mask<kDOrM>() | letters.mask<kSOrT>(), two};
  }
};

// The start of the whitespace that ends the known text; `known` if there is none.
size_t final_space(const ClassMasks* masks, size_t known) {
  while (known != 0) {
    const size_t word = (known - 1) / kWordBytes;
    const uint32_t unused = static_cast<uint32_t>((word + 1) * kWordBytes - known);
    const uint64_t not_space = ~masks[word].space << unused;
    const size_t length = static_cast<size_t>(std::countl_zero(not_space));
    if (length < kWordBytes - unused) return known - length;
    known = word * kWordBytes;
  }
  return 0;
}

struct Progress {
  size_t num_ends;
  bool undecided;  // masks do not decide where the next pre-token ends
};

// Writes the ends that masks decide in the first num_words words of text, which start with a pre-token.
// Leaves out ends that depend on text after those words.
template <Rules rules>
Progress scan_words(const uint8_t* text, size_t size, size_t num_words, uint64_t base, uint64_t* ends,
                    size_t capacity) {
  ClassMasks masks[kMaxWords + 1];
  uint64_t starts[kMaxWords];
  const size_t known = classify_words<rules.detail>(text, size, num_words, masks);
  if (known == 0) return {0, false};
  num_words = (known + kWordBytes - 1) / kWordBytes;
  masks[num_words].space = 0;
  if constexpr (rules.deepseek()) masks[num_words].number = masks[num_words].han_or_kana = 0;
  BoundaryAlgebra<rules, ContractionFinder<!rules.gpt2>> algebra(masks, num_words, starts, text, size);
  size_t limit = final_space(masks, known);  // boundaries after this position may be wrong
  uint64_t undecided = 0;
  size_t word = 0;
  for (size_t found = 0; word < num_words && undecided == 0; ++word) {
    if (word >= 2) found += static_cast<size_t>(std::popcount(starts[word - 2]));
    if (found > capacity) break;  // enough; the last word is not counted yet, as the next one may change it
    undecided = algebra.next();
  }
  if (undecided != 0) {
    size_t position = (word - 1) * kWordBytes + static_cast<size_t>(std::countr_zero(undecided));
    if (position == 0) return {0, true};
    --position;
    limit = position < limit ? position : limit;
  }
  starts[0] &= ~uint64_t{1};
  size_t count = 0;
  for (size_t w = 0; w < word && w * kWordBytes <= limit; ++w) {
    uint64_t bits = starts[w];
    if (limit - w * kWordBytes < kWordBytes - 1) bits &= (uint64_t{2} << (limit - w * kWordBytes)) - 1;
    const uint64_t position = base + w * kWordBytes;
    if (capacity - count >= kWordBytes) [[likely]] {
      count += write_ends(bits, position, ends + count);
      continue;
    }
    for (; bits != 0; bits &= bits - 1) {
      if (count == capacity) return {count, false};
      ends[count++] = position + std::countr_zero(bits);
    }
  }
  return {count, undecided != 0};
}

template <Pattern pattern>
size_t scan_pattern(const uint8_t* text, size_t size, size_t begin, uint64_t* ends, size_t capacity) {
  const Cut cut = portable_cut(pattern);
  size_t count = 0;
  size_t most_words =
      kMaxWords;  // fewer after an undecided place, whose following words were classified in vain
  while (count < capacity && begin < size) {
    const size_t left = size - begin;
    if (left >= kMinWideBytes) {
      // A word of text has ten to fifteen pre-tokens: classify no more than there is room for.
      size_t num_words = (capacity - count) / 12 + 1;
      num_words = num_words < most_words ? num_words : most_words;
      const size_t words_left = (left + kWordBytes - 1) / kWordBytes;
      num_words = num_words < words_left ? num_words : words_left;
      const Progress progress =
          scan_words<rules_of(pattern)>(text + begin, left, num_words, begin, ends + count, capacity - count);
      if (progress.num_ends != 0) {
        count += progress.num_ends;
        begin = ends[count - 1];
        most_words = progress.undecided ? 2 : most_words * 2 < kMaxWords ? most_words * 2 : kMaxWords;
        if (count == capacity || begin == size) break;
        if (!progress.undecided && size - begin >= kWordBytes) continue;
        begin = cut(text, size, begin);
        ends[count++] = begin;
        continue;
      }
    }
    // Malformed text, a pre-token longer than the masks, or the end of the text: go on character by
    // character.
    for (const size_t until = begin + kWordBytes; count < capacity && begin < until && begin < size;) {
      begin = cut(text, size, begin);
      ends[count++] = begin;
    }
  }
  return count;
}

size_t scan_any(Pattern pattern, const uint8_t* text, size_t size, size_t begin, uint64_t* ends,
                size_t capacity) {
  switch (pattern) {
    case Pattern::kGpt2:
      return scan_pattern<Pattern::kGpt2>(text, size, begin, ends, capacity);
    case Pattern::kCl100k:
      return scan_pattern<Pattern::kCl100k>(text, size, begin, ends, capacity);
    case Pattern::kO200k:
      return scan_pattern<Pattern::kO200k>(text, size, begin, ends, capacity);
    case Pattern::kQwen2:
      return scan_pattern<Pattern::kQwen2>(text, size, begin, ends, capacity);
    case Pattern::kNanochat:
      return scan_pattern<Pattern::kNanochat>(text, size, begin, ends, capacity);
    case Pattern::kTekken:
      return scan_pattern<Pattern::kTekken>(text, size, begin, ends, capacity);
    case Pattern::kDeepseek:
      return scan_pattern<Pattern::kDeepseek>(text, size, begin, ends, capacity);
    case Pattern::kCl100k2023:
    case Pattern::kLlama3:
    case Pattern::kBert:  // these have scanners of their own
    case Pattern::kMetaspace:
      break;
  }
  return scan_pattern<Pattern::kLlama3>(text, size, begin, ends, capacity);
}

}  // namespace
}  // namespace tokcore
