// Automata of any tables over any bytes: the matches are those of plain steps without a memory, pieces make
// up the text, and a chain splits as its automata do one after the other.
#include "scan/automaton.h"

#include <utility>

#include "input.h"

namespace {

using namespace tokcore;
using namespace tokcore::fuzz;

struct Piece {
  size_t end;
  bool is_match;
  bool operator==(const Piece&) const = default;
};

AutomatonTables tables_of(Input& input) {
  AutomatonTables tables;
  tables.num_classes = 2 + input.below(4);
  const size_t states = 2 + input.below(6);
  tables.transitions.assign(tables.num_classes, 0);
  for (size_t i = tables.num_classes; i < states * tables.num_classes; ++i) {
    tables.transitions.push_back(static_cast<uint16_t>(input.below(2 * states)));
  }
  tables.leaf_of_block.assign(0x1100, 0);
  for (size_t i = 0; i < tables.leaf_of_block.size(); ++i) tables.leaf_of_block[i] = i % 2;
  const size_t classes = tables.num_classes - 1;  // the last is that of the end
  const size_t stride = 1 + input.below(7);
  for (size_t i = 0; i < 512; ++i) tables.leaves.push_back(static_cast<uint8_t>(i / stride % classes));
  for (size_t i = 0; i < 256; ++i) tables.byte_classes.push_back(static_cast<uint8_t>(i % classes));
  if (input.flag()) {
    for (size_t i = 0; i < tables.num_classes; ++i)
      tables.regions.push_back(static_cast<uint8_t>(input.below(2)));
  }
  return tables;
}

// Bytewise, for which characters are known without tables of Unicode.
std::vector<Piece> split_plainly(const AutomatonTables& tables, std::string_view text) {
  std::vector<Piece> pieces;
  size_t done = 0;
  const auto emit = [&](size_t end, bool is_match) {
    if (end > done) pieces.push_back({end, is_match});
    done = std::max(done, end);
  };
  for (size_t begin = 0; begin < text.size();) {
    size_t matched = begin;
    size_t state = 1;
    for (size_t at = begin; state != 0 && at <= text.size(); ++at) {
      const size_t column =
          at == text.size() ? tables.num_classes - 1 : tables.byte_classes[static_cast<uint8_t>(text[at])];
      const uint16_t transition = tables.transitions[state * tables.num_classes + column];
      if ((transition & 1) != 0 && at > begin) matched = at;
      state = transition >> 1;
    }
    const auto region = [&](size_t at) {
      return tables.regions.empty() ? 0 : tables.regions[tables.byte_classes[static_cast<uint8_t>(text[at])]];
    };
    if (matched > begin) {
      emit(begin, false);
      emit(matched, true);
    } else if (begin > done && region(begin) != region(begin - 1)) {
      emit(begin, false);
    }
    begin = std::max(matched, begin + 1);
  }
  emit(text.size(), false);
  return pieces;
}

std::vector<Piece> split(const Automaton& automaton, std::string_view content, bool bytewise) {
  const auto text = exact(content);
  DeadEnds dead_ends;
  std::vector<Piece> pieces;
  size_t previous = 0;
  automaton.split(text.get(), content.size(), bytewise, dead_ends, [&](size_t end, bool is_match) {
    expect(end > previous && end <= content.size(), "ends ascend");
    pieces.push_back({end, is_match});
    previous = end;
  });
  expect(previous == content.size(), "pieces make up the text");
  return pieces;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Input input(data, size);
  const AutomatonTables first = tables_of(input);
  const AutomatonTables second = tables_of(input);
  expect(Automaton::find_fault(first).empty() && Automaton::find_fault(second).empty(), "tables are sound");
  const bool bytewise = input.flag();
  const size_t times = 1 + input.below(20);
  const std::string_view part = input.rest().substr(0, 100);
  std::string text;  // with long runs, over which automata remember
  for (size_t i = 0; i < times; ++i) text += part;
  const Automaton one(first);
  const Automaton other(second);
  expect(split(one, text, true) == split_plainly(first, text), "matches are those of plain steps");
  std::vector<size_t> expected;
  size_t begin = 0;
  for (const Piece& piece : split(one, text, bytewise)) {
    const std::string_view inner = std::string_view(text).substr(begin, piece.end - begin);
    for (const Piece& within : split(other, inner, bytewise)) expected.push_back(begin + within.end);
    begin = piece.end;
  }
  AutomatonChain chain({{&one, bytewise}, {&other, bytewise}});
  std::vector<size_t> found;
  const auto copy = exact(text);
  if (!text.empty()) chain.split(copy.get(), text.size(), [&](size_t end) { found.push_back(end); });
  expect(found == expected, "a chain is its automata one after the other");
  return 0;
}
