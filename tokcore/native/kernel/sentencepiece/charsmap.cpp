#include "sentencepiece/charsmap.h"

#include <cstring>

namespace tokcore {

bool Charsmap::build(const uint8_t* data, size_t size) {
  units_.clear();
  texts_.clear();
  if (size == 0) return true;
  if (size <= 4) return false;
  const uint32_t trie_size =
      data[0] | uint32_t{data[1]} << 8 | uint32_t{data[2]} << 16 | uint32_t{data[3]} << 24;
  // Darts has blocks of 256 units.
  if (trie_size >= size - 4 || trie_size < 1024 || trie_size % 1024 != 0) return false;
  units_.resize(trie_size / 4);
  for (size_t i = 0; i < units_.size(); ++i) {
    const uint8_t* unit = data + 4 + 4 * i;
    units_[i] = unit[0] | uint32_t{unit[1]} << 8 | uint32_t{unit[2]} << 16 | uint32_t{unit[3]} << 24;
  }
  texts_.assign(data + 4 + trie_size, data + size);
  if (texts_.back() != 0 || !is_sound()) {
    units_.clear();
    return false;
  }
  const uint32_t root = offset(units_[0]);
  for (uint32_t byte = 0; byte < 256; ++byte) begins_[byte] = label(units_[root ^ byte]) == byte;
  return true;
}

bool Charsmap::is_sound() const {
  const auto leads_outside = [&](size_t i) { return ((i ^ offset(units_[i])) | 0xFF) >= units_.size(); };
  if (label(units_[0]) != 0 || has_leaf(units_[0]) || offset(units_[0]) == 0 || leads_outside(0))
    return false;
  for (size_t i = 1; i < units_.size(); ++i) {
    const uint32_t unit = units_[i];
    if (is_leaf(unit)) {
      if (value(unit) >= texts_.size()) return false;
    } else if (leads_outside(i) || (has_leaf(unit) && !is_leaf(units_[i ^ offset(unit)]))) {
      return false;
    }
  }
  return true;
}

Charsmap::Found Charsmap::find_among(const uint8_t* text, size_t size, size_t max_rules) const {
  Found found{0, nullptr, 0};
  if (units_.empty()) return found;
  uint32_t text_start = 0;
  size_t at = offset(units_[0]), num_rules = 0;
  for (size_t i = 0; i < size && num_rules < max_rules; ++i) {
    at ^= text[i];
    const uint32_t unit = units_[at];
    if (label(unit) != text[i]) break;
    at ^= offset(unit);
    if (!has_leaf(unit)) continue;
    ++num_rules;
    found.size = i + 1;
    text_start = value(units_[at]);
  }
  if (found.size != 0) {
    found.text = texts_.data() + text_start;
    found.text_size = std::strlen(reinterpret_cast<const char*>(found.text));
  }
  return found;
}

Charsmap::Rules Charsmap::find_rules(const uint8_t* character, size_t size, bool is_next[256]) const {
  if (units_.empty()) return Rules::kNone;
  size_t at = offset(units_[0]);
  uint32_t unit = 0;
  for (size_t i = 0; i < size; ++i) {
    at ^= character[i];
    unit = units_[at];
    if (label(unit) != character[i]) return Rules::kNone;
    if (has_leaf(unit)) return Rules::kOwn;
    at ^= offset(unit);
  }
  for (uint32_t byte = 0; byte < 256; ++byte)
    is_next[byte] = is_next[byte] || label(units_[at ^ byte]) == byte;
  return Rules::kLonger;
}

bool Charsmap::may_replace(uint8_t first, uint8_t second) const {
  if (!begins(first)) return false;
  const size_t at = offset(units_[0]) ^ first;
  const uint32_t unit = units_[at];
  if (has_leaf(unit)) return true;
  return label(units_[at ^ offset(unit) ^ second]) == second;
}

}  // namespace tokcore
