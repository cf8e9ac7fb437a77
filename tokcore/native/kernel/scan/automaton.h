// DESCRIPTION
// Automaton finds the matches of a regular expression from left to right, as engines that backtrack find
// them: of the matches that begin at one place the one that the expression prefers. Any regular expression
// will do that looks at most one character ahead; tokcore/regex_automaton.py makes the tables. A match never
// is empty.
//
// A state and the class of the next character give the next state, and whether a match ends before that
// character. State 0 is the end, state 1 the beginning. The end of the text is a class of its own, the last.
//
// Any bytes. A byte outside of every well-formed UTF-8 sequence is a character of its own, whose class is
// that of U+DC00 + byte (Python: surrogateescape). Cost: linear in the text, times the states in the worst
// case. Thread-safe.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace tokcore {

struct AutomatonTables {
  size_t num_classes;                   // that of the end of the text included; at most 256
  std::vector<uint16_t> transitions;    // [states][num_classes]: 2 * next state + whether a match ends here
  std::vector<uint16_t> leaf_of_block;  // of 256 code points each
  std::vector<uint8_t> leaves;          // [leaves][256], classes
  std::vector<uint8_t> byte_classes;    // of bytes, for texts whose characters are bytes
};

class Automaton {
 public:
  // What is wrong with tables, or nothing. An Automaton may be made of those with which nothing is.
  static std::string find_fault(const AutomatonTables& tables);

  explicit Automaton(AutomatonTables tables);

  // Appends the ends (relative to text, plus `base`) of the matches and of the stretches between them, and of
  // each whether it is a match. Together they are the text. bytewise: characters are bytes.
  void split(const uint8_t* text, size_t size, bool bytewise, int64_t base, std::vector<int64_t>& ends,
             std::vector<uint8_t>& are_matches) const;

 private:
  template <bool kBytewise>
  void split_text(const uint8_t* text, size_t size, int64_t base, std::vector<int64_t>& ends,
                  std::vector<uint8_t>& are_matches) const;

  uint8_t class_of(uint32_t code_point) const {
    return tables_.leaves[size_t{tables_.leaf_of_block[code_point >> 8]} << 8 | (code_point & 0xFF)];
  }

  AutomatonTables tables_;
  std::vector<uint32_t> rows_;  // transitions, with the place of the next row instead of its number
  std::array<uint8_t, 128> ascii_;
};

}  // namespace tokcore
