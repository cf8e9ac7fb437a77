#include "sentencepiece/piece_normalizer.h"

#include <algorithm>
#include <cstring>

#include "scan/character.h"
#include "scan/scanner_metaspace.h"
#include "text/utf8_writer.h"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace tokcore {
namespace {

constexpr uint8_t kReplacement[] = {0xEF, 0xBF, 0xBD};
constexpr size_t kBlockBytes = size_t{1} << 14;
constexpr size_t kBlock = 16;

// How many of the next bytes are printable ASCII, but no blank; no more than kBlock are looked at.
size_t count_printable(const uint8_t* text) {
#if defined(__SSE2__)
  const __m128i block = _mm_loadu_si128(reinterpret_cast<const __m128i*>(text));
  // As signed numbers, bytes outside of ASCII are below all others.
  const __m128i are_printable =
      _mm_and_si128(_mm_cmpgt_epi8(block, _mm_set1_epi8(' ')), _mm_cmplt_epi8(block, _mm_set1_epi8(0x7F)));
  return static_cast<size_t>(__builtin_ctz(~static_cast<unsigned>(_mm_movemask_epi8(are_printable))));
#else
  size_t count = 0;
  while (count < kBlock && text[count] > ' ' && text[count] < 0x7F) ++count;
  return count;
#endif
}

}  // namespace

bool PieceNormalizer::build(const NormalizerRules& rules, const PieceTrie& user_defined) {
  rules_ = rules;
  user_defined_ = &user_defined;
  if (!charsmap_.build(rules.charsmap, rules.charsmap_size)) return false;
  rules_.charsmap = nullptr;  // it was copied
  for (unsigned byte = 0; byte < 256; ++byte) {
    begins_user_defined_[byte] =
        !user_defined.empty() &&
        user_defined.child(PieceTrie::kRoot, static_cast<uint8_t>(byte)) != PieceTrie::kNone;
  }
  for (unsigned byte = 0; byte < 128; ++byte) {
    for (unsigned next = 0; next < 256; ++next) {
      const bool is_plain = byte != ' ' && !begins_user_defined_[byte] &&
                            !charsmap_.may_replace(static_cast<uint8_t>(byte), static_cast<uint8_t>(next));
      if (is_plain) plain_[byte][next / 64] |= uint64_t{1} << next % 64;
    }
  }
  printable_stays_ = true;
  for (uint8_t byte = '!'; byte <= '~'; ++byte) {
    for (uint8_t next = 0; next < 128; ++next) printable_stays_ = printable_stays_ && is_plain(byte, next);
  }
  space_is_plain_ = !charsmap_.begins(' ') && !begins_user_defined_[int{' '}];
  find_staying();
  return true;
}

void PieceNormalizer::find_staying() {
  constexpr uint32_t kNumCharacters = 0x10000;
  always_stay_.assign(kNumCharacters / 64, 0);
  mostly_stay_.assign(kNumCharacters / 64, 0);
  for (uint32_t c = 0x80; c < kNumCharacters; ++c) {
    if (c >= 0xD800 && c < 0xE000) continue;  // surrogates: no text has them
    uint8_t character[4];
    const auto size = static_cast<size_t>(utf8::put(c, character) - character);
    if (begins_user_defined_[character[0]]) continue;
    if (is_space_symbol_at(character, size, 0)) continue;  // it begins a word, so no plain word has it
    const Charsmap::Rules rules = charsmap_.find_rules(character, size, goes_on_);
    if (rules == Charsmap::Rules::kNone) always_stay_[c / 64] |= uint64_t{1} << c % 64;
    if (rules == Charsmap::Rules::kLonger) mostly_stay_[c / 64] |= uint64_t{1} << c % 64;
  }
}

// Writes a text; there is always room for three bytes for each byte of a block.
class PieceNormalizer::Writer {
 public:
  Writer(const NormalizerRules& rules, bool begins_text, PaddedBytes* out)
      : out_(out), escapes_(rules.escape_whitespaces), removes_(rules.remove_extra_whitespaces) {
    was_space_ = removes_ && begins_text;
  }

  void reserve(size_t size) { out_->reserve_more(3 * size); }

  void put_space() {
    uint8_t* end = out_->end();
    if (escapes_) {
      std::memcpy(end, kSpaceSymbol, 3);
      out_->set_end(end + 3);
    } else {
      *end = ' ';
      out_->set_end(end + 1);
    }
  }

  void add_space() {
    if (was_space_) return;
    put_space();
    was_space_ = removes_;
  }

  // Characters were written up to there, none of them a blank.
  void end_plain(const uint8_t* end) {
    out_->set_end(end);
    was_space_ = false;
  }

  void add(const uint8_t* text, size_t size) {
    for (; was_space_ && size > 0 && *text == ' '; ++text) --size;
    if (size == 0) return;
    for (size_t i = 0; i < size; ++i) {
      if (text[i] == ' ') {
        put_space();
      } else {
        *out_->end() = text[i];
        out_->set_end(out_->end() + 1);
      }
    }
    was_space_ = removes_ && text[size - 1] == ' ';
  }

  // Whether something was written from there on, and a blank did not end it.
  bool ends_word(size_t start) const {
    return out_->size() > start &&
           !(out_->size() >= start + sizeof(kSpaceSymbol) &&
             std::memcmp(out_->end() - sizeof(kSpaceSymbol), kSpaceSymbol, sizeof(kSpaceSymbol)) == 0);
  }

  void drop_trailing_spaces(size_t start) {
    if (!removes_) return;
    const size_t width = escapes_ ? 3 : 1;
    const uint8_t* const space = escapes_ ? kSpaceSymbol : reinterpret_cast<const uint8_t*>(" ");
    while (out_->size() >= start + width && std::memcmp(out_->end() - width, space, width) == 0)
      out_->set_size(out_->size() - width);
  }

 private:
  PaddedBytes* out_;
  bool escapes_;
  bool removes_;
  bool was_space_;  // blanks that follow are extra
};

size_t PieceNormalizer::plain_word(const uint8_t* text, size_t size) const {
  if (size <= 2 * kAfterWord || *text != ' ') return 0;
  size = std::min(size - kAfterWord, kMaxWord);
  size_t i = 1 + count_printable(text + 1);
  if (text[i] == ' ' && i > 1) return i;  // most words, in some languages
  for (i = 1; i < size;) {
    if (text[i] >= 0x80) {
      const size_t width = staying_bytes(text + i, kAfterWord);
      if (width == 0) return 0;
      i += width;
      continue;
    }
    const size_t count = count_printable(text + i);
    i += count;
    if (text[i] == ' ') return i > 1 && i <= size ? i : 0;
    if (count == 0 || (text[i] >= 0x80 && !is_plain(text[i - 1], text[i]))) return 0;
  }
  return 0;
}

size_t PieceNormalizer::normalize_from(const uint8_t* text, size_t size, size_t begin, bool stops,
                                       PaddedBytes* out) const {
  size_t i = begin;
  if (begin == 0 && rules_.remove_extra_whitespaces) {
    while (i < size) {
      const Step first = step(text + i, size - i);
      if (first.text_size != 1 || *first.text != ' ') break;
      i += first.size;
    }
  }
  if (i == size) return size;
  const size_t start = out->size();
  Writer writer(rules_, begin == 0, out);
  writer.reserve(1);
  if (begin == 0 && rules_.add_dummy_prefix && !rules_.whitespace_is_suffix) writer.put_space();
  while (i < size) {
    const size_t end = std::min(size, i + kBlockBytes);
    writer.reserve(end - i + 24);
    while (i < end) {
      uint8_t* out_end = out->end();
      const size_t stopped = copy_staying(text, size, i, end, &out_end);
      if (stopped > i) {
        writer.end_plain(out_end);
        i = stopped;
        continue;
      }
      if (text[i] == ' ' && space_is_plain_) {
        if (stops && plain_word(text + i, size - i) > 0 && writer.ends_word(start)) return i;
        writer.add_space();
        ++i;
        continue;
      }
      const Step one = step(text + i, size - i);
      if (one.text_size > one.size || one.size > end - i) writer.reserve(end - i + one.text_size + 24);
      writer.add(one.text, one.text_size);
      i += one.size;
    }
  }
  writer.drop_trailing_spaces(start);
  writer.reserve(1);
  if (rules_.add_dummy_prefix && rules_.whitespace_is_suffix) writer.put_space();
  return size;
}

size_t PieceNormalizer::copy_staying(const uint8_t* text, size_t size, size_t begin, size_t end,
                                     uint8_t** out) const {
  uint8_t* to = *out;
  size_t i = begin;
  while (i < end) {
    const uint8_t lead = text[i];
    if (lead == ' ') break;
    if (lead < 0x80) {
      if (printable_stays_ && size - i > kBlock) {
        std::memcpy(to, text + i, kBlock);
        size_t count = count_printable(text + i);
        if (count > 0 && text[i + count] >= 0x80 && !is_plain(text[i + count - 1], text[i + count])) --count;
        if (count == 0) break;
        i += count;
        to += count;
        continue;
      }
      if (i + 1 >= size || !is_plain(lead, text[i + 1])) break;
      *to++ = text[i++];
      continue;
    }
    const size_t width = staying_bytes(text + i, size - i);
    if (width == 0) break;
    for (size_t k = 0; k < width; ++k) *to++ = text[i++];
  }
  *out = to;
  return i;
}

// The bytes of a character outside of ASCII that stays as it is, 2 or 3; of any other 0.
size_t PieceNormalizer::staying_bytes(const uint8_t* text, size_t size) const {
  const uint8_t lead = text[0];
  uint32_t c;
  size_t width;
  if (lead >= 0xE0) {
    if (lead >= 0xF0 || size < 3 || (text[1] & 0xC0) != 0x80 || (text[2] & 0xC0) != 0x80) return 0;
    c = (lead & 0x0Fu) << 12 | (text[1] & 0x3Fu) << 6 | (text[2] & 0x3Fu);
    if (c < 0x800) return 0;
    width = 3;
  } else {
    if (lead < 0xC2 || size < 2 || (text[1] & 0xC0) != 0x80) return 0;
    c = (lead & 0x1Fu) << 6 | (text[1] & 0x3Fu);
    width = 2;
  }
  const uint64_t bit = uint64_t{1} << c % 64;
  if ((always_stay_[c / 64] & bit) != 0) return width;
  const bool goes_on = width < size && goes_on_[text[width]];
  return goes_on || (mostly_stay_[c / 64] & bit) == 0 ? 0 : width;
}

PieceNormalizer::Step PieceNormalizer::step(const uint8_t* text, size_t size) const {
  if (begins_user_defined_[*text]) {
    const size_t found = user_defined_->longest(text, size, kMaxUserDefined).first;
    if (found != 0) return {found, text, found};
  }
  if (charsmap_.begins(*text)) {
    const Charsmap::Found found = charsmap_.find(text, size);
    if (found.size != 0) return {found.size, found.text, found.text_size};
  }
  const Character c = character_at(text, size, 0);
  if (c.code_point == kNoCodePoint) return {1, kReplacement, sizeof(kReplacement)};
  return {c.size, text, c.size};
}

}  // namespace tokcore
