#include "scan/automaton.h"

#include <algorithm>
#include <utility>

namespace tokcore {
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
  if (!tables.regions.empty() && tables.regions.size() != columns) {
    return "regions: expected none, or one for each class";
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

}  // namespace tokcore
