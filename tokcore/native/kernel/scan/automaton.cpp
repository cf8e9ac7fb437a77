#include "scan/automaton.h"

#include <algorithm>
#include <unordered_set>
#include <utility>

#include "scan/character.h"

namespace tokcore {
namespace {

constexpr size_t kNone = SIZE_MAX;
constexpr size_t kStride = 64;  // bytes between places where states are remembered

// Places and states after which no match ends. An attempt that comes to one of them stops there, so that many
// attempts that read far and fail, as those of `\s+$` within white space do, take time linear in the text.
class DeadEnds {
 public:
  bool contains(size_t position, uint32_t row) const {
    return !known_.empty() && known_.contains(key(position, row));
  }
  void pass(size_t position, uint32_t row) { trail_.push_back(key(position, row)); }
  void match() { trail_.clear(); }
  void end() {
    known_.insert(trail_.begin(), trail_.end());
    trail_.clear();
  }

 private:
  static uint64_t key(size_t position, uint32_t row) { return uint64_t{position} << 24 | row; }

  std::unordered_set<uint64_t> known_;
  std::vector<uint64_t> trail_;  // of this attempt, since its last match
};

}  // namespace

std::string Automaton::find_fault(const AutomatonTables& tables) {
  const size_t columns = tables.num_classes;
  if (columns == 0 || columns > 256) return "num_classes: expected 1 to 256";
  const size_t states = tables.transitions.size() / columns;
  if (states * columns != tables.transitions.size() || states < 2) {
    return "transitions: expected num_classes values for each of at least two states";
  }
  if (tables.transitions.size() >= size_t{1} << 23) return "transitions: expected less than 2^23";
  const auto is_state = [&](uint16_t transition) { return size_t{transition} >> 1 < states; };
  if (!std::all_of(tables.transitions.begin(), tables.transitions.end(), is_state)) {
    return "transitions: one leads to no state";
  }
  const auto ends = tables.transitions.begin() + static_cast<std::ptrdiff_t>(columns);
  if (std::any_of(tables.transitions.begin(), ends, [](uint16_t transition) { return transition != 0; })) {
    return "transitions: expected that state 0 leads nowhere";
  }
  if (tables.leaf_of_block.size() != 0x1100) return "leaf_of_block: expected 4352 values";
  if (tables.leaves.size() % 256 != 0) return "leaves: expected 256 values each";
  for (const uint16_t leaf : tables.leaf_of_block) {
    if (leaf >= tables.leaves.size() / 256) return "leaf_of_block: one names no leaf";
  }
  if (tables.byte_classes.size() != 256) return "byte_classes: expected 256 values";
  const auto is_class = [&](uint8_t value) { return value < columns; };
  if (!std::all_of(tables.leaves.begin(), tables.leaves.end(), is_class) ||
      !std::all_of(tables.byte_classes.begin(), tables.byte_classes.end(), is_class)) {
    return "leaves, byte_classes: one names no class";
  }
  return {};
}

Automaton::Automaton(AutomatonTables tables) : tables_(std::move(tables)) {
  rows_.reserve(tables_.transitions.size());
  for (const uint16_t transition : tables_.transitions) {
    const auto row = static_cast<uint32_t>((transition >> 1) * tables_.num_classes);
    rows_.push_back(row << 1 | (transition & 1));
  }
  for (size_t i = 0; i < ascii_.size(); ++i) ascii_[i] = class_of(static_cast<uint32_t>(i));
}

void Automaton::split(const uint8_t* text, size_t size, bool bytewise, int64_t base,
                      std::vector<int64_t>& ends, std::vector<uint8_t>& are_matches) const {
  if (bytewise) return split_text<true>(text, size, base, ends, are_matches);
  split_text<false>(text, size, base, ends, are_matches);
}

template <bool kBytewise>
void Automaton::split_text(const uint8_t* text, size_t size, int64_t base, std::vector<int64_t>& ends,
                           std::vector<uint8_t>& are_matches) const {
  const uint32_t* rows = rows_.data();
  const auto columns = static_cast<uint32_t>(tables_.num_classes);
  const uint32_t beginning = columns;  // state 1
  const uint32_t end_class = columns - 1;
  const uint8_t* byte_classes = tables_.byte_classes.data();
  size_t width = 1;
  const auto classify = [&](size_t position) -> uint32_t {
    const uint8_t byte = text[position];
    width = 1;
    if constexpr (kBytewise) return byte_classes[byte];
    if (byte < 0x80) return ascii_[byte];
    const Character found = multibyte_character_at(text, size, position);
    width = found.size;
    return class_of(found.code_point == kNoCodePoint ? 0xDC00u + byte : found.code_point);
  };
  DeadEnds dead_ends;
  size_t emitted = 0;
  const auto emit = [&](size_t end, bool is_match) {
    if (end == emitted) return;
    ends.push_back(base + static_cast<int64_t>(end));
    are_matches.push_back(is_match);
    emitted = end;
  };
  size_t begin = 0;
  while (begin < size) {
    uint32_t transition = rows[beginning + classify(begin)];
    const size_t first_width = width;
    if (transition == 0) {  // no match begins with this character
      begin += first_width;
      continue;
    }
    size_t matched = kNone;
    size_t position = begin;
    size_t next_place = (begin | (kStride - 1)) + 1;
    bool has_trail = false;
    while (true) {
      const uint32_t row = transition >> 1;
      if (row == 0) break;
      position += width;
      if (position >= next_place) {
        if (dead_ends.contains(position, row)) break;
        dead_ends.pass(position, row);
        has_trail = true;
        next_place = (position | (kStride - 1)) + 1;
      }
      transition = rows[row + (position < size ? classify(position) : end_class)];
      if (transition & 1) {
        matched = position;
        if (has_trail) dead_ends.match();
      }
      if (position >= size) break;
    }
    if (has_trail) dead_ends.end();
    if (matched == kNone) {
      begin += first_width;
      continue;
    }
    emit(begin, false);
    emit(matched, true);
    begin = matched;
  }
  emit(size, false);
}

}  // namespace tokcore
