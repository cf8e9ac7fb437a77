#include "text/piece_normalizer.h"

#include <algorithm>
#include <cstring>

#include "scan/character.h"
#include "scan/scanner_metaspace.h"

namespace tokcore {
namespace {

constexpr uint8_t kReplacement[] = {0xEF, 0xBF, 0xBD};
constexpr size_t kBlockBytes = size_t{1} << 14;

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
  return true;
}

// Writes a text; there is always room for three bytes for each byte of a block.
class PieceNormalizer::Writer {
 public:
  Writer(const NormalizerRules& rules, PaddedBytes* out)
      : out_(out), escapes_(rules.escape_whitespaces), removes_(rules.remove_extra_whitespaces) {
    was_space_ = removes_;
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

  // One character, or several, none of them a blank.
  void add_plain(const uint8_t* text, size_t size) {
    std::memcpy(out_->end(), text, size);
    out_->set_end(out_->end() + size);
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

void PieceNormalizer::normalize(const uint8_t* text, size_t size, PaddedBytes* out) const {
  size_t i = 0;
  if (rules_.remove_extra_whitespaces) {
    while (i < size) {
      const Step first = step(text + i, size - i);
      if (first.text_size != 1 || *first.text != ' ') break;
      i += first.size;
    }
  }
  if (i == size) return;
  const size_t start = out->size();
  Writer writer(rules_, out);
  writer.reserve(1);
  if (rules_.add_dummy_prefix && !rules_.whitespace_is_suffix) writer.put_space();
  const bool space_is_plain = !charsmap_.begins(' ') && !begins_user_defined_[int{' '}];
  while (i < size) {
    const size_t end = std::min(size, i + kBlockBytes);
    writer.reserve(end - i + 8);
    while (i < end) {
      const uint8_t byte = text[i];
      if (byte < 0x80 && i + 1 < end) {
        size_t last = i;
        while (last + 1 < end && text[last] < 0x80 && is_plain(text[last], text[last + 1])) ++last;
        if (last > i) {
          writer.add_plain(text + i, last - i);
          i = last;
          continue;
        }
        if (byte == ' ' && space_is_plain) {
          writer.add_space();
          ++i;
          continue;
        }
      }
      const Step one = step(text + i, size - i);
      if (one.text_size > one.size || one.size > end - i) writer.reserve(end - i + one.text_size + 8);
      writer.add(one.text, one.text_size);
      i += one.size;
    }
  }
  writer.drop_trailing_spaces(start);
  writer.reserve(1);
  if (rules_.add_dummy_prefix && rules_.whitespace_is_suffix) writer.put_space();
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
