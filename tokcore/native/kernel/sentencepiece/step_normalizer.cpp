#include "sentencepiece/step_normalizer.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "scan/character.h"
#include "text/graphemes.h"

namespace tokcore {
namespace {

constexpr char kSpace[] = "\xE2\x96\x81";
constexpr size_t kMaxGraphemeBytes = 5;  // longer ones are replaced character by character

const uint8_t* bytes_of(const std::string& text) { return reinterpret_cast<const uint8_t*>(text.data()); }

// The end of the white space that begins there.
size_t skip_space(const std::string& text, size_t at) {
  for (Character c; (c = character_at(bytes_of(text), text.size(), at)).is(unicode::kSpace);) at += c.size;
  return at;
}

// The end of the last character that is no white space.
size_t find_last(const std::string& text) {
  size_t end = 0;
  for (size_t i = text.size(); i > 0 && end == 0;) {
    size_t start = i - 1;
    while (start > 0 && (static_cast<uint8_t>(text[start]) & 0xC0) == 0x80) --start;
    if (!character_at(bytes_of(text), text.size(), start).is(unicode::kSpace)) end = i;
    i = start;
  }
  return end;
}

// What replaces something stands for the last byte of it.
void replace_all(const std::string& text, const std::string& pattern, const std::string& by, size_t* lead,
                 std::string* out) {
  size_t from = 0, kept = 0;
  const auto copy_to = [&](size_t end) {
    if (from < *lead) kept = out->size() + std::min(end, *lead) - from;
    out->append(text, from, end - from);
  };
  for (size_t at; (at = text.find(pattern, from)) != std::string::npos; from = at + pattern.size()) {
    copy_to(at);
    out->append(by);
    if (at + pattern.size() <= *lead) kept = out->size();
  }
  copy_to(text.size());
  *lead = kept;
}

void replace_spans(const std::string& text, const std::string& by, size_t* lead, std::string* out) {
  size_t kept = 0;
  for (size_t at = 0; at < text.size();) {
    size_t end = at;
    while (end < text.size() && text[end] == ' ') ++end;
    if (end - at >= 2) {
      out->append(by);
      at = end;
    } else {
      out->push_back(text[at++]);
    }
    if (at <= *lead) kept = out->size();
  }
  *lead = kept;
}

size_t count_characters(const char* text, size_t size) {
  size_t count = 0;
  for (size_t i = 0; i < size; ++i) count += (static_cast<uint8_t>(text[i]) & 0xC0) != 0x80;
  return count;
}

// Follows which characters of a text those of another stand for, as far as the first `lead` bytes matter. As
// in tokenizers, of a part that is replaced the new characters stand for the old ones one by one, further
// ones for the last one, and where there are fewer the last one stands for the rest as well. What is removed
// belongs to the character before it; if there is none, the next ones stand for it.
class LeadFollower {
 public:
  LeadFollower(const std::string& text, size_t lead) : text_(text), lead_(lead) {}

  void replace(size_t old_characters, const char* by, size_t size) {
    if (read_ > lead_) return;
    const size_t characters = count_characters(by, size);
    for (size_t i = 0, number = 0; i < size; ++number) {
      settle();
      width_ = 1;
      while (i + width_ < size && (static_cast<uint8_t>(by[i + width_]) & 0xC0) == 0x80) ++width_;
      i += width_;
      change_ = number < old_characters ? 0 : 1;
    }
    if (characters < old_characters && width_ > 0)
      change_ -= static_cast<int64_t>(old_characters - characters);
  }

  size_t finish() {
    settle();
    return kept_;
  }

 private:
  // Decides about the last character that was written, now that nothing can be added to it.
  void settle() {
    if (width_ == 0) return;
    const size_t stands_for = change_ <= 0 ? read_ : read_ < 1 ? 0 : read_ - 1;
    if (stands_for < lead_ && is_leading_) {
      kept_ += width_;
    } else {
      is_leading_ = false;
    }
    for (int64_t left = change_ <= 0 ? 1 - change_ : 0; left > 0 && read_ < text_.size(); --left)
      read_ += character_at(bytes_of(text_), text_.size(), read_).size;
    width_ = 0;
  }

  const std::string& text_;
  const size_t lead_;
  size_t read_ = 0;  // of the text
  size_t kept_ = 0;
  bool is_leading_ = true;
  size_t width_ = 0;  // of the last character; 0: there is none
  int64_t change_ = 0;
};

}  // namespace

bool StepNormalizer::add(uint8_t kind, std::string pattern, std::string text) {
  if (kind > static_cast<uint8_t>(StepKind::kMetaspaceStart)) return false;
  Step step{static_cast<StepKind>(kind), std::move(pattern), std::move(text), {}};
  if (step.kind == StepKind::kReplace && step.pattern.empty()) return false;
  if (step.kind == StepKind::kCharsmap &&
      (step.text.empty() || !step.charsmap.build(bytes_of(step.text), step.text.size())))
    return false;
  drops_ill_formed_ = drops_ill_formed_ || step.kind == StepKind::kAsciiWords;
  steps_.push_back(std::move(step));
  return true;
}

void StepNormalizer::normalize(const uint8_t* text, size_t size, PaddedBytes* out) const {
  std::string now, next;
  now.reserve(size);
  for (size_t i = 0; i < size;) {
    const Character c = character_at(text, size, i);
    if (c.code_point == kNoCodePoint) {
      if (!drops_ill_formed_) now.append("\xEF\xBF\xBD");
    } else {
      now.append(reinterpret_cast<const char*>(text + i), c.size);
    }
    i += c.size;
  }
  size_t lead = now.empty() ? 0 : character_at(bytes_of(now), now.size(), 0).size;
  for (const Step& step : steps_) {
    next.clear();
    apply(step, now, &lead, &next);
    now.swap(next);
  }
  out->reserve_more(now.size());
  std::memcpy(out->end(), now.data(), now.size());
  out->set_size(out->size() + now.size());
}

void StepNormalizer::apply(const Step& step, const std::string& text, size_t* lead, std::string* out) {
  switch (step.kind) {
    case StepKind::kPrepend:
      if (!text.empty()) out->append(step.text).append(text);
      if (*lead > 0) *lead += step.text.size();
      return;
    case StepKind::kReplace:
      return replace_all(text, step.pattern, step.text, lead, out);
    case StepKind::kReplaceSpans:
      return replace_spans(text, step.text, lead, out);
    case StepKind::kStripLeft: {
      const size_t start = skip_space(text, 0);
      out->append(text, start);
      *lead -= std::min(*lead, start);
      return;
    }
    case StepKind::kStripRight:
      out->append(text, 0, find_last(text));
      return;
    case StepKind::kCharsmap:
      return apply_charsmap(step.charsmap, text, lead, out);
    case StepKind::kMetaspace:
      return replace_all(text, " ", kSpace, lead, out);
    case StepKind::kMetaspaceStart:
    case StepKind::kMetaspaceFirst:
      if (!text.empty() && text[0] != ' ' && !text.starts_with(kSpace) &&
          (*lead > 0 || step.kind == StepKind::kMetaspaceFirst))
        out->append(kSpace);
      return replace_all(text, " ", kSpace, lead, out);
    case StepKind::kWords:
      return apply_words(text, out);
    case StepKind::kAsciiWords:
      return apply_ascii_words(text, out);
  }
}

void StepNormalizer::apply_charsmap(const Charsmap& charsmap, const std::string& text, size_t* lead,
                                    std::string* out) {
  const uint8_t* const bytes = bytes_of(text);
  const size_t size = text.size();
  LeadFollower follower(text, *lead);
  // The shortest rule counts, and stands for all that was looked at.
  const auto replace = [&](size_t at, size_t length) {
    const Charsmap::Found found = charsmap.find_shortest(bytes + at, length);
    if (found.size == 0) return false;
    const char* const by = reinterpret_cast<const char*>(found.text);
    out->append(by, found.text_size);
    follower.replace(count_characters(text.data() + at, length), by, found.text_size);
    return true;
  };
  for (size_t at = 0; at < size;) {
    const bool is_alone = bytes[at] < 0x80 && (at + 1 == size || bytes[at + 1] < 0x80) && bytes[at] != '\r';
    const size_t end = at + (is_alone ? 1 : grapheme_bytes(bytes + at, size - at));
    if (end - at <= kMaxGraphemeBytes && replace(at, end - at)) {
      at = end;
      continue;
    }
    while (at < end) {
      const size_t width = character_at(bytes, size, at).size;
      if (!replace(at, width)) {
        out->append(text, at, width);
        follower.replace(1, text.data() + at, width);
      }
      at += width;
    }
  }
  *lead = follower.finish();
}

void StepNormalizer::apply_words(const std::string& text, std::string* out) {
  for (size_t at = skip_space(text, 0); at < text.size(); at = skip_space(text, at)) {
    if (text.compare(at, 3, kSpace) != 0) out->append(kSpace);
    const size_t start = at;
    for (Character c;
         !(c = character_at(bytes_of(text), text.size(), at)).at_end() && !c.is(unicode::kSpace);)
      at += c.size;
    out->append(text, start, at - start);
  }
}

void StepNormalizer::apply_ascii_words(const std::string& text, std::string* out) {
  bool is_in_word = false;
  for (size_t at = 0; at < text.size();) {
    const bool is_mark = text.compare(at, 3, kSpace) == 0;
    if (is_mark || text[at] == ' ' || (text[at] >= '\t' && text[at] <= '\r')) {
      is_in_word = false;
      at += is_mark ? 3 : 1;
      continue;
    }
    if (!is_in_word) out->append(kSpace);
    is_in_word = true;
    out->push_back(text[at++]);
  }
}

}  // namespace tokcore
