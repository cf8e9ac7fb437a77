#include "scan/scanner_portable.h"

#include "scan/character.h"
#include "scan/contraction.h"

namespace tokcore {
namespace {

using unicode::kLetter;
using unicode::kLower;
using unicode::kMark;
using unicode::kNumber;
using unicode::kSign;
using unicode::kSpace;
using unicode::kUpper;

// The differences between the patterns of the cl100k family.
struct Family {
  uint32_t max_digits;
  bool takes_final_space;  // \s++$ : whitespace that ends the text is one pre-token, even with line ends
};

bool is_line_end(Character c) { return c.code_point == '\r' || c.code_point == '\n'; }

// [^\s\p{L}\p{N}]
bool is_other(Character c) { return !c.at_end() && !c.is(kLetter | kNumber | kSpace); }

// [^\r\n\p{L}\p{N}]
bool may_lead_word(Character c) { return !c.is(kLetter | kNumber) && !is_line_end(c); }

struct Text {
  const uint8_t* bytes;
  size_t size;

  Character at(size_t position) const { return character_at(bytes, size, position); }

  template <typename Predicate>
  size_t skip_while(size_t position, Predicate holds) const {
    for (Character c = at(position); !c.at_end() && holds(c); c = at(position)) position += c.size;
    return position;
  }

  size_t skip(size_t position, uint8_t any_of) const {
    return skip_while(position, [any_of](Character c) { return c.is(any_of); });
  }

  size_t skip_digits(size_t position, uint32_t max_digits) const {
    for (uint32_t i = 0; i < max_digits; ++i) {
      const Character c = at(position);
      if (!c.is(kNumber)) break;
      position += c.size;
    }
    return position;
  }

  // Bytes that (?i:'s|'t|'re|'ve|'m|'ll|'d) matches; 0 for no match.
  size_t contraction(size_t position, bool fold_case) const {
    if (position >= size || bytes[position] != '\'') return 0;
    const size_t letters = contraction_size(bytes, size, position + 1, fold_case);
    return letters == 0 ? 0 : letters + 1;
  }

  // End of the match of the whitespace alternatives at `begin`, a whitespace character: \s++$ (if
  // takes_final_space) | \s*[\r\n]+ (if stops_at_line_end) | \s+(?!\S) | \s+
  size_t whitespace_end(size_t begin, bool stops_at_line_end, bool takes_final_space) const {
    size_t end = begin;
    size_t last = begin;        // start of the last whitespace character
    size_t after_line_end = 0;  // end of the last line end, 0 if there is none
    Character c = at(begin);
    for (; c.is(kSpace); c = at(end)) {
      last = end;
      end += c.size;
      if (is_line_end(c)) after_line_end = end;
    }
    if (takes_final_space && c.at_end()) return end;
    if (stops_at_line_end && after_line_end != 0) return after_line_end;
    return c.at_end() || last == begin ? end : last;
  }
};

size_t cut_gpt2(const uint8_t* bytes, size_t size, size_t begin) {
  const Text text{bytes, size};
  if (const size_t contraction = text.contraction(begin, false)) return begin + contraction;
  const size_t body = bytes[begin] == ' ' ? begin + 1 : begin;
  const Character first = text.at(body);
  if (first.is(kLetter)) return text.skip(body, kLetter);
  if (first.is(kNumber)) return text.skip(body, kNumber);
  if (is_other(first)) return text.skip_while(body, is_other);
  return text.whitespace_end(begin, false, false);
}

template <Family family>
size_t cut_cl100k(const uint8_t* bytes, size_t size, size_t begin) {
  const Text text{bytes, size};
  if (const size_t contraction = text.contraction(begin, true)) return begin + contraction;
  const Character first = text.at(begin);
  const size_t word = may_lead_word(first) ? begin + first.size : begin;
  if (text.at(word).is(kLetter)) return text.skip(word, kLetter);
  if (first.is(kNumber)) return text.skip_digits(begin, family.max_digits);
  const size_t body = first.code_point == ' ' ? begin + 1 : begin;
  if (is_other(text.at(body))) return text.skip_while(text.skip_while(body, is_other), is_line_end);
  return text.whitespace_end(begin, true, family.takes_final_space);
}

// [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}] and [\p{Ll}\p{Lm}\p{Lo}\p{M}]
bool in_head(Character c) { return c.is(kLetter | kMark) && !c.is(kLower); }
bool in_tail(Character c) { return c.is(kLetter | kMark) && !c.is(kUpper); }

// End of head* tail+ at begin; begin for no match. The head backtracks no further than it must.
size_t head_and_tail_end(const Text& text, size_t begin) {
  size_t end = begin;
  size_t after_tail = begin;  // end of the head's last character that can also be the tail
  Character c = text.at(end);
  for (; in_head(c); c = text.at(end)) {
    end += c.size;
    if (in_tail(c)) after_tail = end;
  }
  return in_tail(c) ? text.skip_while(end, in_tail) : after_tail;
}

// End of head+ tail* at begin; begin for no match.
size_t head_end(const Text& text, size_t begin) {
  const size_t end = text.skip_while(begin, in_head);
  return end == begin ? begin : text.skip_while(end, in_tail);
}

template <uint32_t max_digits, bool contractions>
size_t cut_cased(const uint8_t* bytes, size_t size, size_t begin) {
  const Text text{bytes, size};
  const Character first = text.at(begin);
  const size_t after_prefix = may_lead_word(first) ? begin + first.size : begin;
  for (const auto word_end : {head_and_tail_end, head_end}) {
    for (const size_t word : {after_prefix, begin}) {
      const size_t end = word_end(text, word);
      if (end > word) return contractions ? end + text.contraction(end, true) : end;
    }
  }
  if (first.is(kNumber)) return text.skip_digits(begin, max_digits);
  const size_t body = first.code_point == ' ' ? begin + 1 : begin;
  if (is_other(text.at(body))) {
    return text.skip_while(text.skip_while(body, is_other),
                           [](Character c) { return is_line_end(c) || c.code_point == '/'; });
  }
  return text.whitespace_end(begin, true, false);
}

// DeepSeek V3's splits, one after the other. To the expression that cuts words and white space, digits are
// the end of the text; Han and kana are a text of their own.
bool is_han_or_kana(Character c) {
  return (c.code_point >= 0x4E00 && c.code_point <= 0x9FA5) ||
         (c.code_point >= 0x3040 && c.code_point <= 0x30FF);
}

bool is_ascii_letter(Character c) { return c.code_point < 0x80 && c.is(kLetter); }

size_t cut_deepseek(const uint8_t* bytes, size_t size, size_t begin) {
  const Text text{bytes, size};
  const Character first = text.at(begin);
  const size_t next = begin + first.size;
  if (first.is(kNumber)) return text.skip_digits(begin, 3);
  const bool inside = is_han_or_kana(first);
  const auto is_marked = [=](Character c) { return c.is(kLetter | kMark) && is_han_or_kana(c) == inside; };
  const auto is_sign = [=](Character c) { return c.is(kSign) && is_han_or_kana(c) == inside; };
  if (is_sign(first) && first.size == 1 && is_ascii_letter(text.at(next))) {
    return text.skip_while(next, is_ascii_letter);
  }
  const bool may_lead = !first.is(kLetter | kSign) && !is_line_end(first);
  if (may_lead && is_marked(text.at(next))) return text.skip_while(next, is_marked);
  if (is_marked(first)) return text.skip_while(begin, is_marked);
  const size_t body = first.code_point == ' ' ? next : begin;
  if (is_sign(text.at(body))) {
    const size_t end = text.skip_while(body, is_sign);
    return inside ? end : text.skip_while(end, is_line_end);
  }
  if (first.is(kSpace)) {
    const size_t end = text.skip(begin, kSpace);
    const Character after = text.at(end);
    const bool at_region = after.is(kNumber) || is_han_or_kana(after);
    return Text{bytes, at_region ? end : size}.whitespace_end(begin, true, false);
  }
  // What no match covers goes up to the next one.
  const auto is_odd = [=](Character c) {
    return !c.at_end() && !c.is(kLetter | kMark | kNumber | kSign | kSpace) && is_han_or_kana(c) == inside;
  };
  size_t end = next;
  for (Character c = text.at(end); is_odd(c) && !is_marked(text.at(end + c.size)); c = text.at(end)) {
    end += c.size;
  }
  return end;
}

template <Cut cut>
size_t scan_with(const uint8_t* text, size_t size, size_t begin, uint64_t* ends, size_t capacity) {
  size_t count = 0;
  while (count < capacity && begin < size) {
    begin = cut(text, size, begin);
    ends[count++] = begin;
  }
  return count;
}

using Scan = size_t (*)(const uint8_t*, size_t, size_t, uint64_t*, size_t);

struct Portable {
  Cut cut;
  Scan scan;
};

template <Cut cut>
constexpr Portable kPortable{cut, scan_with<cut>};

const Portable& portable(Pattern pattern) {
  switch (pattern) {
    case Pattern::kGpt2:
      return kPortable<cut_gpt2>;
    case Pattern::kCl100k:
      return kPortable<cut_cl100k<Family{3, true}>>;
    case Pattern::kO200k:
      return kPortable<cut_cased<3, true>>;
    case Pattern::kTekken:
      return kPortable<cut_cased<1, false>>;
    case Pattern::kQwen2:
      return kPortable<cut_cl100k<Family{1, false}>>;
    case Pattern::kNanochat:
      return kPortable<cut_cl100k<Family{2, false}>>;
    case Pattern::kDeepseek:
      return kPortable<cut_deepseek>;
    case Pattern::kCl100k2023:
    case Pattern::kLlama3:
    case Pattern::kBert:  // these have scanners of their own
    case Pattern::kMetaspace:
      break;
  }
  return kPortable<cut_cl100k<Family{3, false}>>;
}

}  // namespace

Cut portable_cut(Pattern pattern) { return portable(pattern).cut; }

size_t scan_portable(Pattern pattern, const uint8_t* text, size_t size, size_t begin, uint64_t* ends,
                     size_t capacity) {
  return portable(pattern).scan(text, size, begin, ends, capacity);
}

}  // namespace tokcore
