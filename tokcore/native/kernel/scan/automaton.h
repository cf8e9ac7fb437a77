// DESCRIPTION
// Automaton finds the matches of a regular expression from left to right, as engines that backtrack find
// them: of the matches that begin at one place the one that the expression prefers. Any regular expression
// will do that looks at most one character ahead; tokcore/text/regex_automaton.py makes the tables. A match
// never is empty.
//
// A state and the class of the next character give the next state, and whether a match ends before that
// character. State 0 is the end, state 1 the beginning. The end of the text is a class of its own, the last.
//
// Any bytes. A byte outside of every well-formed UTF-8 sequence is a character of its own, whose class is
// that of U+DC00 + byte (Python: surrogateescape). Cost: linear in the text, times the states in the worst
// case. Thread-safe.
//
// With regions, a stretch between matches also ends where a character of another region follows: so one
// automaton may stand for several that isolate their matches one after the other.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "scan/character.h"

namespace tokcore {

struct AutomatonTables {
  size_t num_classes;                   // that of the end of the text included; at most 256
  std::vector<uint16_t> transitions;    // [states][num_classes]: 2 * next state + whether a match ends here
  std::vector<uint16_t> leaf_of_block;  // of 256 code points each
  std::vector<uint8_t> leaves;          // [leaves][256], classes
  std::vector<uint8_t> byte_classes;    // of bytes, for texts whose characters are bytes
  std::vector<uint8_t> regions;         // of classes; none: all are of one
};

// Places and states after which no match ends. An attempt that comes to one of them stops there, so that many
// attempts that read far and fail, as those of `\s+$` within white space do, take time linear in the text.
class DeadEnds {
 public:
  static constexpr size_t kStride = 64;  // bytes between places where states are remembered

  bool contains(size_t position, uint32_t row) const {
    return !known_.empty() && known_.contains(key(position, row));
  }
  void pass(size_t position, uint32_t row) { trail_.push_back(key(position, row)); }
  void match() { trail_.clear(); }
  void end_attempt() {
    known_.insert(trail_.begin(), trail_.end());
    trail_.clear();
  }
  void end_text() {
    if (!known_.empty()) known_.clear();
  }

 private:
  static uint64_t key(size_t position, uint32_t row) { return uint64_t{position} << 24 | row; }

  std::unordered_set<uint64_t> known_;
  std::vector<uint64_t> trail_;  // of this attempt, since its last match
};

class Automaton {
 public:
  // What is wrong with tables, or nothing. An Automaton may be made of those with which nothing is.
  static std::string find_fault(const AutomatonTables& tables);

  explicit Automaton(AutomatonTables tables);

  // Calls emit(end, is_match) for the matches and for the stretches between them, in order; ends are relative
  // to text, and the last one is its size. bytewise: characters are bytes.
  template <typename Emit>
  void split(const uint8_t* text, size_t size, bool bytewise, DeadEnds& dead_ends, Emit&& emit) const {
    if (bytewise) return split_text<true>(text, size, dead_ends, emit);
    split_text<false>(text, size, dead_ends, emit);
  }

 private:
  template <bool kBytewise, typename Emit>
  void split_text(const uint8_t* text, size_t size, DeadEnds& dead_ends, Emit& emit) const;

  uint8_t class_of(uint32_t code_point) const {
    return tables_.leaves[size_t{tables_.leaf_of_block[code_point >> 8]} << 8 | (code_point & 0xFF)];
  }

  AutomatonTables tables_;
  std::vector<uint32_t> rows_;  // transitions, with the place of the next row instead of its number
  std::array<uint8_t, 128> ascii_;
};

template <bool kBytewise, typename Emit>
void Automaton::split_text(const uint8_t* text, size_t size, DeadEnds& dead_ends, Emit& emit) const {
  const uint32_t* rows = rows_.data();
  const auto columns = static_cast<uint32_t>(tables_.num_classes);
  const uint32_t beginning = columns;  // state 1
  const uint32_t end_class = columns - 1;
  const uint8_t* byte_classes = tables_.byte_classes.data();
  const uint8_t* ascii = ascii_.data();
  size_t width = 1;
  const auto classify = [&](size_t position) -> uint32_t {
    const uint8_t byte = text[position];
    width = 1;
    if constexpr (kBytewise) return byte_classes[byte];
    if (byte < 0x80) return ascii_[byte];
    const CodePoint found = multibyte_code_point_at(text, size, position);
    width = found.size;
    return class_of(found.value == kNoCodePoint ? 0xDC00u + byte : found.value);
  };
  size_t emitted = 0;
  size_t begin = 0;
  const uint8_t* regions = tables_.regions.empty() ? nullptr : tables_.regions.data();
  uint8_t region = 0;  // of the character before begin, if it is in no match
  const auto pass_over = [&](uint32_t first_class, size_t first_width) {
    if (regions != nullptr) {
      if (begin > emitted && regions[first_class] != region) {
        emit(begin, false);
        emitted = begin;
      }
      region = regions[first_class];
    }
    begin += first_width;
  };
  while (begin < size) {
    const uint32_t first_class = classify(begin);
    uint32_t transition = rows[beginning + first_class];
    const size_t first_width = width;
    if (transition == 0) {  // no match begins with this character
      pass_over(first_class, first_width);
      continue;
    }
    size_t matched = begin;
    size_t position = begin;
    // Short attempts, which nearly all are, are not worth remembering.
    size_t next_place = ((begin + DeadEnds::kStride) | (DeadEnds::kStride - 1)) + 1;
    size_t plain_end = next_place < size ? next_place : size;  // until there, nothing is remembered
    bool has_trail = false;
    while (true) {
      const uint32_t row = transition >> 1;
      if (row == 0) break;
      position += width;
      if (!kBytewise && position < plain_end && text[position] < 0x80) {
        width = 1;
        transition = rows[row + ascii[text[position]]];
        matched = (transition & 1) != 0 ? position : matched;
        continue;
      }
      if (position >= next_place) {
        if (dead_ends.contains(position, row)) break;
        dead_ends.pass(position, row);
        has_trail = true;
        plain_end = 0;
        next_place = (position | (DeadEnds::kStride - 1)) + 1;
      }
      transition = rows[row + (position < size ? classify(position) : end_class)];
      if (transition & 1) {
        matched = position;
        if (has_trail) dead_ends.match();
      }
      if (position >= size) break;
    }
    if (has_trail) dead_ends.end_attempt();
    if (matched == begin) {
      pass_over(first_class, first_width);
      continue;
    }
    if (begin > emitted) emit(begin, false);
    emit(matched, true);
    begin = emitted = matched;
  }
  if (size > emitted) emit(size, false);
  dead_ends.end_text();
}

// Automata one after the other: each splits the pieces that the one before it made.
class AutomatonChain {
 public:
  struct Link {
    const Automaton* automaton;  // outlives the chain
    bool bytewise;
  };

  explicit AutomatonChain(std::vector<Link> links) : links_(std::move(links)), dead_ends_(links_.size()) {}

  // Calls emit(end) for each piece of a text, in order; ends are relative to text. Not thread-safe.
  template <typename Emit>
  void split(const uint8_t* text, size_t size, Emit&& emit) {
    split_from(0, text, 0, size, emit);
  }

 private:
  template <typename Emit>
  void split_from(size_t i, const uint8_t* text, size_t begin, size_t end, Emit& emit) {
    if (i == links_.size()) return emit(end);
    size_t from = begin;
    links_[i].automaton->split(text + begin, end - begin, links_[i].bytewise, dead_ends_[i],
                               [&](size_t to, bool) {
                                 split_from(i + 1, text, from, begin + to, emit);
                                 from = begin + to;
                               });
  }

  std::vector<Link> links_;
  std::vector<DeadEnds> dead_ends_;
};

}  // namespace tokcore
