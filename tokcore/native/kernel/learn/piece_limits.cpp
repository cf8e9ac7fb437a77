#include "learn/piece_limits.h"

#include <algorithm>

namespace tokcore {
namespace {

constexpr uint32_t kSpaceSymbol = 0x2581;

bool is_decimal_digit(uint32_t c) { return (c >= '0' && c <= '9') || (c >= 0xFF10 && c <= 0xFF19); }

}  // namespace

uint8_t ScriptTable::find(uint32_t code_point) const {
  return scripts[std::upper_bound(starts, starts + size, code_point) - starts - 1];
}

PieceChecker::PieceChecker(const std::vector<uint32_t>& code_points, const ScriptTable& scripts,
                           const PieceLimits& limits)
    : limits_(limits), classes_(code_points.size()) {
  for (size_t i = 0; i < code_points.size(); ++i) {
    const uint32_t c = code_points[i];
    Class& one = classes_[i];
    one.is_space = c == kSpaceSymbol;
    one.is_digit = is_decimal_digit(c);
    one.script = one.is_digit && !limits.split_by_number ? kAny : scripts.find(c);
  }
}

bool PieceChecker::allows(const uint32_t* symbols, size_t size) const {
  if (size > limits_.max_length) return false;
  uint8_t script = kAny;  // of the character before
  for (size_t i = 0; i < size; ++i) {
    const Class one = classes_[symbols[i]];
    if (one.is_space) {
      // It begins a piece, or stands within one that crosses spaces.
      if (i > 0 && (limits_.split_by_whitespace || i + 1 == size)) return false;
      continue;
    }
    if (limits_.split_digits && one.is_digit && size > 1) return false;
    const uint8_t own = one.script == ScriptTable::kInherited ? script : one.script;
    if (limits_.split_by_unicode_script && own != kAny && script != kAny && own != script) return false;
    script = own;
  }
  return true;
}

}  // namespace tokcore
