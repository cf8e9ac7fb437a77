// DESCRIPTION
// PieceChecker says which runs of characters may be a piece, as SentencePiece does: how long one may be, and
// whether scripts, digits and the space symbol may stand beside others. Thread-safe once built.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tokcore {

struct PieceLimits {
  size_t max_length = 16;  // in characters
  bool split_by_unicode_script = true;
  bool split_by_number = true;
  bool split_by_whitespace = true;
  bool split_digits = false;
};

// The script of the code points from starts[i] to before starts[i + 1]; starts[0] is 0. Han, Hiragana and
// Katakana are one script.
struct ScriptTable {
  static constexpr uint8_t kInherited = 254;  // that of the character before

  const uint32_t* starts;
  const uint8_t* scripts;
  size_t size;

  uint8_t find(uint32_t code_point) const;
};

class PieceChecker {
 public:
  // Symbol i is the character code_points[i].
  PieceChecker(const std::vector<uint32_t>& code_points, const ScriptTable& scripts,
               const PieceLimits& limits);

  // Whether these symbols, at least one, may be a piece.
  bool allows(const uint32_t* symbols, size_t size) const;
  size_t max_length() const { return limits_.max_length; }

 private:
  static constexpr uint8_t kAny = 255;
  struct Class {
    uint8_t script = kAny;
    bool is_space = false;
    bool is_digit = false;
  };

  PieceLimits limits_;
  std::vector<Class> classes_;
};

}  // namespace tokcore
