// DESCRIPTION
// BoundaryAlgebra turns class masks into boundary masks: bit i of word w is set if a pre-token starts at byte
// 64 * w + i. It works on whole words, mostly with shifts and with additions, whose carry runs through a run
// of ones. Only a few bits of state pass from word to word. Words are given in order; the first one starts
// with a pre-token.
//
// A boundary depends only on the text to its left, except in whitespace: how a run of whitespace is cut
// depends on how it ends. So the masks of the next words must be there, and boundaries within whitespace that
// ends the known text may be wrong. Contractions are looked up in the text.
//
// Only o200k and tekken have contexts that masks do not decide: a word where a caseless letter or a mark
// comes before a capital, a mark after punctuation, a slash after line ends that belong to punctuation. And
// deepseek has them at characters in no class. next() returns where.
//
// Plain 64-bit arithmetic with internal linkage, because the sources that include it are compiled for
// different processors.
#pragma once

#include <cstddef>
#include <cstdint>

#include "scan/class_masks.h"
#include "scan/contraction.h"
#include "scan/scanner.h"

namespace tokcore {
namespace {

// What masks have to tell beside letters, numbers, white space and others.
enum class Detail : uint8_t { kNone, kCase, kSigns };

struct Rules {
  bool gpt2;
  Detail detail;      // kCase: a word ends before a capital that comes after a small letter; kSigns: deepseek
  bool contractions;  // that word may end with one
  uint32_t max_digits;  // 0: no limit

  constexpr bool cased() const { return detail == Detail::kCase; }
  constexpr bool deepseek() const { return detail == Detail::kSigns; }
};

constexpr Rules rules_of(Pattern pattern) {
  switch (pattern) {
    case Pattern::kGpt2:
      return {true, Detail::kNone, false, 0};
    case Pattern::kO200k:
      return {false, Detail::kCase, true, 3};
    case Pattern::kTekken:
      return {false, Detail::kCase, false, 1};
    case Pattern::kQwen2:
      return {false, Detail::kNone, false, 1};
    case Pattern::kNanochat:
      return {false, Detail::kNone, false, 2};
    case Pattern::kDeepseek:
      return {false, Detail::kSigns, false, 3};
    case Pattern::kCl100k:
    case Pattern::kCl100k2023:
    case Pattern::kLlama3:
    case Pattern::kBert:  // these have scanners of their own
    case Pattern::kMetaspace:
      break;
  }
  return {false, Detail::kNone, false, 3};
}

// The positions of letters that make a contraction with an apostrophe before them, by number of letters.
struct Contractions {
  uint64_t one_letter;
  uint64_t two_letters;  // the first of the two
};

// Finder::find(bytes, size) finds the contractions of a word; size: bytes up to the end of the text.
template <Rules rules, typename Finder>
class BoundaryAlgebra {
 public:
  // masks: num_words words, and an empty one after them. starts: num_words words, which next() writes.
  // text: the first word's bytes, size of them up to the end of the text.
  BoundaryAlgebra(const ClassMasks* masks, size_t num_words, uint64_t* starts, const uint8_t* text,
                  size_t size)
      : masks_(masks), num_words_(num_words), starts_(starts), text_(text), size_(size) {}

  // Writes the boundaries of the next word; may also add one to the word before it. Returns a bit (usually
  // none) for each place that masks do not decide: boundaries from the lowest such bit on may be wrong.
  uint64_t next() {
    const ClassMasks& m = masks_[word_];
    const uint64_t word_character = rules.detail == Detail::kNone ? m.letter : m.letter | m.mark;
    const uint64_t after_word = shift(word_character, previous_.word_character);
    const uint64_t after_other = shift(m.other, previous_.other);
    const uint64_t after_blank = shift(m.blank, previous_.blank);
    const uint64_t word_start = word_character & ~after_word;
    const uint64_t number_start = m.number & ~shift(m.number, previous_.number);
    uint64_t region_start = 0;  // deepseek: of what is Han or kana, or not
    if constexpr (rules.deepseek()) {
      const uint64_t known = word_character | m.number | m.space | m.other | m.odd;
      region_start = (m.han_or_kana ^ shift(m.han_or_kana, previous_.han_or_kana)) & known;
    }
    const uint64_t other_start = m.other & (~after_other | region_start);
    const uint64_t punctuation = other_start & ~after_blank;  // starts a pre-token
    uint64_t undecided = 0;
    uint64_t starts;
    if constexpr (rules.gpt2) {
      starts = ((word_start | number_start) & ~after_blank) | punctuation;
      starts |= m.space & ~shift(m.space, previous_.space);
      starts |= last_spaces(m, m.space);
      const uint64_t quoted = shift(punctuation & m.apostrophe, previous_.quote) & word_start;
      previous_.quote = (punctuation & m.apostrophe) >> 63;
      starts = split_contractions(starts, quoted);
      previous_.space = m.space >> 63;
    } else {
      // If a pre-token starts with one character of punctuation, the word after it belongs to it.
      // (deepseek: if it is of ASCII, and letters of ASCII only.)
      const uint64_t prefixed = rules.deepseek() ? shift(punctuation, previous_.punctuation) & m.ascii_letter
                                                 : after_one_character(m, punctuation) & word_character;
      // Line ends after punctuation belong to it.
      uint64_t tail_start = m.line_end & (after_other | previous_.tail);
      if constexpr (rules.deepseek()) tail_start &= ~shift(m.han_or_kana, previous_.han_or_kana);
      const uint64_t tail = m.line_end & ~(m.line_end + tail_start);
      const uint64_t space = m.space & ~tail;
      const uint64_t line_end = m.line_end & ~tail;
      const uint64_t indent = m.space & ~m.line_end;
      const uint64_t after_indent = shift(indent, previous_.indent);
      starts = number_start | punctuation | (word_start & ~after_indent & ~prefixed);
      starts |= space & ~shift(space, previous_.space);
      if constexpr (rules.deepseek()) {
        // To the expression that cuts words and white space, digits are the end of the text; Han and kana are
        // a text of their own.
        const ClassMasks& next = masks_[word_ + 1];
        const uint64_t region = m.number | m.han_or_kana;
        const uint64_t before_region = region >> 1 | (next.number | next.han_or_kana) << 63;
        starts |= region_start;
        starts |=
            last_spaces(m, indent & ~before_region) | (after_ascii_letters(m, prefixed) & word_character);
        undecided = m.odd;
        previous_.punctuation = punctuation >> 63;
        previous_.han_or_kana = m.han_or_kana >> 63;
      } else {
        starts |= last_spaces(m, indent);
      }
      starts |= after_last_line_end(m, indent & shift(line_end, previous_.line_end), indent);
      if constexpr (rules.max_digits == 1) {
        starts |= m.number & ~m.continuation;
      } else {
        if (m.number != 0) starts |= digit_groups(m, number_start);
      }
      if constexpr (rules.cased()) {
        const uint64_t caseless = word_character & ~m.upper & ~m.lower;
        starts |= m.upper & shift(m.lower, previous_.lower);
        undecided = (m.upper & shift(caseless, previous_.caseless)) |
                    (m.mark & word_start & after_other & ~prefixed) | (m.slash & shift(tail, previous_.tail));
        if constexpr (rules.contractions) {
          starts = join_contractions(starts, m.apostrophe & after_word);
        }
        previous_.caseless = caseless >> 63;
        previous_.lower = m.lower >> 63;
      } else if constexpr (!rules.deepseek()) {
        const uint64_t quote = punctuation & m.apostrophe;
        starts = split_contractions(starts, shift(quote, previous_.quote) & prefixed);
        previous_.quote = quote >> 63;
      }
      previous_.tail = tail >> 63;
      previous_.space = space >> 63;
      previous_.line_end = line_end >> 63;
      previous_.indent = indent >> 63;
    }
    previous_.word_character = word_character >> 63;
    previous_.number = m.number >> 63;
    previous_.other = m.other >> 63;
    previous_.blank = m.blank >> 63;
    starts_[word_++] = starts;
    return undecided;
  }

 private:
  // The last bits of the word before, 0 or 1 each.
  struct LastBits {
    uint64_t word_character = 0, number = 0, space = 0, other = 0, blank = 0, indent = 0, line_end = 0,
             tail = 0;
    uint64_t quote = 0, lower = 0, caseless = 0;
    uint64_t one_character = 0;  // a prefix character ends with the word, or goes on after it
    uint64_t punctuation = 0, han_or_kana = 0;
    uint64_t ascii_letters = 0;  // punctuation and letters of ASCII after it
  };

  // The bytes right after those of mask.
  static uint64_t shift(uint64_t mask, uint64_t last_bit) { return mask << 1 | last_bit; }

  // The byte after the character that starts at each bit of `first`.
  uint64_t after_one_character(const ClassMasks& m, uint64_t first) {
    const uint64_t second_byte = shift(first, previous_.one_character);
    const uint64_t sum = second_byte + m.continuation;
    previous_.one_character = first >> 63 | static_cast<uint64_t>(sum < second_byte);
    return sum & ~m.continuation;
  }

  // The byte after each run of letters of ASCII that starts at a bit of `first`.
  uint64_t after_ascii_letters(const ClassMasks& m, uint64_t first) {
    first |= previous_.ascii_letters;
    const uint64_t sum = m.ascii_letter + first;
    previous_.ascii_letters = static_cast<uint64_t>(sum < first);
    return sum & ~m.ascii_letter;
  }

  // The first byte of the last character of each run of whitespace, among those in `space`.
  uint64_t last_spaces(const ClassMasks& m, uint64_t space) {
    const uint64_t followed = m.space >> 1 | masks_[word_ + 1].space << 63;
    const uint64_t last = space & ~followed;
    if ((last & m.continuation) == 0) [[likely]]
      return last;
    // Whitespace outside of ASCII has two or three bytes: step back to the first.
    uint64_t first = last & ~m.continuation;
    uint64_t back = last & m.continuation;
    for (uint32_t step = 1; step <= 2; ++step) {
      const uint64_t crossing = back & 1;
      back >>= 1;
      first |= back & ~m.continuation;
      back &= m.continuation;
      if (crossing != 0) {
        const bool second = (masks_[word_ - 1].continuation >> 63) != 0;
        starts_[word_ - 1] |= uint64_t{1} << (second ? 62 : 63);
      }
    }
    return first;
  }

  // Those bits of first_indent, the whitespace right after a line end, whose run has no further line end.
  uint64_t after_last_line_end(const ClassMasks& m, uint64_t first_indent, uint64_t indent) {
    if (first_indent == 0) return 0;
    const uint64_t sum = first_indent + indent;
    const bool leaves_word = sum < indent;
    if (!leaves_word && (sum & ~indent & m.line_end) == 0) return first_indent;
    uint64_t kept = 0;
    for (uint64_t rest = first_indent; rest != 0; rest &= rest - 1) {
      if (!line_end_follows(static_cast<uint32_t>(__builtin_ctzll(rest)))) kept |= rest & (~rest + 1);
    }
    return kept;
  }

  // Whether a line end follows the run of other whitespace that holds this bit of the word.
  bool line_end_follows(uint32_t bit) const {
    uint64_t from = ~uint64_t{0} << bit;
    for (size_t w = word_; w < num_words_; ++w, from = ~uint64_t{0}) {
      const uint64_t end = ~(masks_[w].space & ~masks_[w].line_end) & from;
      if (end != 0) return (masks_[w].line_end & end & (~end + 1)) != 0;
    }
    return false;
  }

  // The starts of groups of at most max_digits digits.
  uint64_t digit_groups(const ClassMasks& m, uint64_t run_start) {
    constexpr uint32_t kGroup = rules.max_digits == 0 ? 1 : rules.max_digits;
    uint64_t groups = run_start;
    const bool goes_on = (m.number & 1) != 0 && (run_start & 1) == 0;
    if ((m.number & m.continuation) != 0) {
      uint32_t digits = digits_in_group_;
      for (uint64_t rest = m.number & ~m.continuation; rest != 0; rest &= rest - 1) {
        const uint64_t digit = rest & (~rest + 1);
        if ((digit & run_start) != 0) digits = 0;
        if (digits == 0) groups |= digit;
        digits = (digits + 1) % kGroup;
      }
      digits_in_group_ = digits;
      return groups;
    }
    if (goes_on) {
      const uint32_t left = (kGroup - digits_in_group_) % kGroup;
      const uint64_t needed = (uint64_t{2} << left) - 1;
      if ((m.number & needed) == needed) groups |= uint64_t{1} << left;
    }
    uint64_t continued = m.number;  // digits that have kGroup digits before them
    for (uint32_t i = 1; i <= kGroup; ++i) continued &= m.number << i;
    for (uint32_t size = kGroup; size < kWordBytes; size *= 2) {  // twice as far each time
      const uint64_t more = groups << size & continued;
      if (more == 0) break;
      groups |= more;
      continued &= continued << size;
    }
    if (m.number >> 63 != 0) {
      digits_in_group_ = static_cast<uint32_t>(__builtin_clzll(groups) + 1) % kGroup;
    }
    return groups;
  }

  // letters: letters right after an apostrophe that starts a pre-token.
  uint64_t split_contractions(uint64_t starts, uint64_t letters) {
    starts |= start_in_next_;
    start_in_next_ = 0;
    if (letters == 0) return starts;
    const Contractions found = Finder::find(text_ + word_ * kWordBytes, size_ - word_ * kWordBytes);
    const uint64_t one = letters & found.one_letter, two = letters & found.two_letters;
    start_in_next_ = one >> 63 | two >> 62;
    return (starts & ~(one | two)) | one << 1 | two << 2;
  }

  // quotes: apostrophes right after a word. With the letters of a contraction they belong to that word.
  uint64_t join_contractions(uint64_t starts, uint64_t quotes) {
    starts = (starts & ~joined_in_next_) | start_in_next_;
    joined_in_next_ = 0;
    start_in_next_ = 0;
    for (; quotes != 0; quotes &= quotes - 1) {
      const uint32_t bit = static_cast<uint32_t>(__builtin_ctzll(quotes));
      const size_t position = word_ * kWordBytes + bit;
      if (position == contraction_end_) continue;  // this word already has a contraction
      const size_t letters_size = contraction_size(text_, size_, position + 1, true);
      if (letters_size == 0) continue;
      contraction_end_ = position + 1 + letters_size;
      for (size_t i = 0; i <= letters_size; ++i) {
        starts &= ~bit_at(bit + i);
        joined_in_next_ |= bit_at_next(bit + i);
      }
      starts |= bit_at(bit + 1 + letters_size);
      start_in_next_ |= bit_at_next(bit + 1 + letters_size);
    }
    return starts;
  }

  static uint64_t bit_at(size_t bit) { return bit < kWordBytes ? uint64_t{1} << bit : 0; }
  static uint64_t bit_at_next(size_t bit) { return bit < kWordBytes ? 0 : uint64_t{1} << (bit - kWordBytes); }

  const ClassMasks* masks_;
  size_t num_words_;
  uint64_t* starts_;
  const uint8_t* text_;
  size_t size_;
  size_t word_ = 0;
  LastBits previous_;
  uint32_t digits_in_group_ = 0;  // of the number at the end of the word before
  uint64_t start_in_next_ = 0;    // boundaries of the next word, found early
  uint64_t joined_in_next_ = 0;   // places of the next word that are no boundaries, found early
  size_t contraction_end_ = 0;
};

}  // namespace
}  // namespace tokcore
