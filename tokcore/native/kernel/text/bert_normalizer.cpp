#include "text/bert_normalizer.h"

#include <algorithm>
#include <cstring>

#include "scan/character.h"
#include "text/bert_tables.h"

namespace tokcore {
namespace {

constexpr size_t kMaxUtf8Bytes = 4;

uint8_t* write_code_point(uint32_t c, uint8_t* out) {
  if (c < 0x80) {
    *out++ = static_cast<uint8_t>(c);
  } else if (c < 0x800) {
    *out++ = static_cast<uint8_t>(0xC0 | c >> 6);
    *out++ = static_cast<uint8_t>(0x80 | (c & 0x3F));
  } else if (c < 0x10000) {
    *out++ = static_cast<uint8_t>(0xE0 | c >> 12);
    *out++ = static_cast<uint8_t>(0x80 | (c >> 6 & 0x3F));
    *out++ = static_cast<uint8_t>(0x80 | (c & 0x3F));
  } else {
    *out++ = static_cast<uint8_t>(0xF0 | c >> 18);
    *out++ = static_cast<uint8_t>(0x80 | (c >> 12 & 0x3F));
    *out++ = static_cast<uint8_t>(0x80 | (c >> 6 & 0x3F));
    *out++ = static_cast<uint8_t>(0x80 | (c & 0x3F));
  }
  return out;
}

// Of ASCII characters, only capitals are replaced, each by one byte.
uint8_t find_small(uint16_t action) {
  return bert::kReplacements[bert::kReplacementStarts[action - bert::kReplaced]];
}

constexpr size_t kBlockBytes = size_t{1} << 14;
constexpr size_t kMaxGrowth = 8;  // bytes that a byte becomes, at most

}  // namespace

BertNormalizer::BertNormalizer(bool cased)
    : table_(cased ? Table{bert::kCasedLeafOfBlock, bert::kCasedLeaves}
                   : Table{bert::kLowerLeafOfBlock, bert::kLowerLeaves}) {}

void BertNormalizer::add(const uint8_t* text, size_t size) {
  for (size_t position = 0; position < size;) {
    const size_t end = std::min(size, position + kBlockBytes);
    reserve(end - position + kMaxUtf8Bytes);  // the last character may end after the block
    while (position < end) position = step(text, size, position);
  }
  end_marks();
}

void BertNormalizer::reserve(size_t size) {
  const size_t wanted = used_ + (size + marks_.size()) * kMaxGrowth;
  if (out_.size() < wanted) out_.resize(std::max(wanted, out_.size() * 3 / 2));
}

size_t BertNormalizer::step(const uint8_t* text, size_t size, size_t position) {
  const uint8_t byte = text[position];
  if (byte < 0x80) {
    const uint16_t action = table_.leaves[table_.leaf_of_block[0]][byte];
    if (action == bert::kRemoved) return position + 1;
    if (!marks_.empty()) end_marks();
    put(action == bert::kStays ? byte : action == bert::kSpace ? ' ' : find_small(action));
    return position + 1;
  }
  const Character c = multibyte_character_at(text, size, position);
  if (c.code_point != kNoCodePoint) add_character(c.code_point, text + position, c.size);
  return position + c.size;
}

void BertNormalizer::add_character(uint32_t c, const uint8_t* own, size_t size) {
  const uint16_t action = table_.of(c);
  if (action == bert::kRemoved) return;
  if (action >= bert::kMark && action < bert::kReplaced) {
    add_mark(c, action);
    return;
  }
  if (!marks_.empty()) end_marks();
  switch (action) {
    case bert::kStays:
      put(own, size);
      return;
    case bert::kRemovedStarter:
      return;
    case bert::kSpace:
      put(' ');
      return;
    case bert::kSurrounded:
      put(' ');
      put(own, size);
      put(' ');
      return;
    case bert::kHangul:
      add_jamo(c - 0xAC00);
      return;
    default:
      add_replacement(static_cast<uint16_t>(action - bert::kReplaced));
  }
}

void BertNormalizer::add_jamo(uint32_t syllable) {
  uint8_t* out = out_.data() + used_;
  out = write_code_point(0x1100 + syllable / 588, out);
  out = write_code_point(0x1161 + syllable % 588 / 28, out);
  if (syllable % 28 != 0) out = write_code_point(0x11A7 + syllable % 28, out);
  used_ = static_cast<size_t>(out - out_.data());
}

void BertNormalizer::add_replacement(uint16_t number) {
  const uint8_t* const text = bert::kReplacements + bert::kReplacementStarts[number];
  const size_t size = bert::kReplacementStarts[number + 1] - bert::kReplacementStarts[number];
  if (number < bert::kNumPlainReplacements) {
    put(text, size);
    return;
  }
  for (size_t i = 0; i < size;) {
    const Character c = character_at(text, size, i);
    const uint16_t action = table_.of(c.code_point);
    if (action >= bert::kMark && action < bert::kReplaced) {
      add_mark(c.code_point, action);
    } else {
      end_marks();
      put(text + i, c.size);
    }
    i += c.size;
  }
}

void BertNormalizer::add_mark(uint32_t c, uint16_t order) {
  in_order_ = in_order_ && (marks_.empty() || marks_.back().order <= order);
  marks_.push_back({order, c});
}

// Writes the row of marks, in canonical order.
void BertNormalizer::end_marks() {
  if (marks_.empty()) return;
  if (!in_order_) {
    std::stable_sort(marks_.begin(), marks_.end(),
                     [](const Mark& a, const Mark& b) { return a.order < b.order; });
  }
  reserve(kBlockBytes + kMaxUtf8Bytes);
  uint8_t* out = out_.data() + used_;
  for (const Mark& mark : marks_) out = write_code_point(mark.code_point, out);
  used_ = static_cast<size_t>(out - out_.data());
  marks_.clear();
  in_order_ = true;
}

void BertNormalizer::put(const uint8_t* bytes, size_t size) {
  std::memcpy(out_.data() + used_, bytes, size);
  used_ += size;
}

}  // namespace tokcore
