// DESCRIPTION
// apply() replaces a pair by the symbol that it is merged to, in the words of one worker, and notes what that
// changes: which symbols are before and after the merged pairs, how often, and in which units. Whoever merges
// adds up the notes of all workers. Threads may work on the words of different workers at once.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "learn/pair_table.h"
#include "learn/word_store.h"

namespace tokcore {

inline constexpr ptrdiff_t kPrefetchUnits = 16;
inline constexpr ptrdiff_t kPrefetchSymbols = 8;

struct MergeStep {
  uint32_t left;
  uint32_t right;
  uint32_t merged;
  UnitList packed;
  std::vector<uint32_t> units;  // that may hold the pair, ascending: unpacked before the pair is merged
};

// A symbol before (or after) merged pairs: how often it occurs there, and in how many units.
struct Neighbour {
  uint32_t id;
  int64_t count;
  UnitListSize size;  // of the list of units
};
struct Place {
  uint32_t neighbour;  // its index in Side::neighbours
  uint32_t unit;
};

// The notes of a worker for one side of a merge.
struct Side {
  std::vector<Neighbour> neighbours;
  std::vector<Place> places;  // for each neighbour in ascending order of units, no unit twice
};
struct Effects {
  Side left;
  Side right;
  int64_t num_replaced = 0;  // how often the pair was replaced, times the words' counts
};

// By id: the index of its neighbour in a list, plus one; all zero between uses.
using NeighbourIndex = std::vector<uint32_t>;

struct Worker {
  size_t first_unit = 0;  // its share of the units; a word is never divided
  size_t end_unit = 0;
  NeighbourIndex left_index;
  NeighbourIndex right_index;
  std::vector<Effects> effects;  // for each merge of the batch

  void resize(size_t num_ids) {
    left_index.resize(num_ids);
    right_index.resize(num_ids);
  }
};

// One worker's work on one merge.
struct Job {
  const MergeStep& step;
  Worker& worker;
  Effects& effects;
  const PairTable& pairs;  // only to prefetch the entries that will change

  void add_left(uint32_t id, uint32_t unit, int64_t count) const {
    if (add(worker.left_index, effects.left, id, unit, count)) {
      pairs.prefetch(pair_key(id, step.left));
      pairs.prefetch(pair_key(id, step.merged));
    }
  }
  void add_right(uint32_t id, uint32_t unit, int64_t count) const {
    if (add(worker.right_index, effects.right, id, unit, count)) {
      pairs.prefetch(pair_key(step.right, id));
      pairs.prefetch(pair_key(step.merged, id));
    }
  }

 private:
  // Whether the neighbour is new.
  static bool add(NeighbourIndex& index, Side& side, uint32_t id, uint32_t unit, int64_t count) {
    uint32_t& place = index[id];
    const bool is_new = place == 0;
    if (is_new) {
      side.neighbours.push_back({id, 0, {}});
      place = static_cast<uint32_t>(side.neighbours.size());
    }
    Neighbour& neighbour = side.neighbours[place - 1];
    neighbour.count += count;
    if (!neighbour.size.add(unit)) return false;
    side.places.push_back({place - 1, unit});
    return is_new;
  }
};

// Replaces the pair in a unit that is a whole word.
template <typename Symbol>
inline void rewrite_word(WordStore<Symbol>& words, uint32_t number, const Job& job) {
  const MergeStep& step = job.step;
  const auto left = static_cast<Symbol>(step.left), right = static_cast<Symbol>(step.right);
  const auto merged = static_cast<Symbol>(step.merged);
  Units::Unit& unit = words.units[number];
  Symbol* const symbols = words.begin(number);
  const size_t size = unit.num_symbols;
  size_t in = 0;
  while (in + 1 < size && !(symbols[in] == left && symbols[in + 1] == right)) ++in;
  if (in + 1 >= size) return;
  const auto count = static_cast<int64_t>(unit.count);
  size_t out = in;
  for (;;) {
    if (out != 0) job.add_left(symbols[out - 1], number, count);
    in += 2;
    symbols[out++] = merged;
    if (in == size) break;
    job.add_right(symbols[in], number, count);
    while (in + 1 < size && !(symbols[in] == left && symbols[in + 1] == right))
      symbols[out++] = symbols[in++];
    if (in + 1 == size) {
      symbols[out++] = symbols[in];
      break;
    }
  }
  unit.num_symbols = static_cast<uint32_t>(out);
  job.effects.num_replaced += count * static_cast<int64_t>(size - out);
}

// The same for a segment of a long word: neighbours, and the right symbol of the last pair, may be in other
// segments.
template <typename Symbol>
void rewrite_segment(WordStore<Symbol>& words, uint32_t number, const Job& job) {
  const MergeStep& step = job.step;
  Units& units = words.units;
  Units::Unit& unit = units[number];
  const auto count = static_cast<int64_t>(unit.count);
  Symbol* const symbols = words.begin(number);
  const size_t size = unit.num_symbols;
  size_t in = 0, out = 0;
  while (in < size) {
    const bool is_last = in + 1 == size;
    const uint32_t following = is_last ? words.first_of(units.next_of(number)) : symbols[in + 1];
    if (symbols[in] != step.left || following != step.right) {
      symbols[out++] = symbols[in++];
      continue;
    }
    if (out != 0) {
      job.add_left(symbols[out - 1], number, count);
    } else if (const uint32_t before = units.previous_of(number); before != kNoUnit) {
      job.add_left(words.last_of(before), before, count);
    }
    if (is_last) words.drop_first(units.next_of(number));
    job.effects.num_replaced += count;
    in += is_last ? 1 : 2;
    symbols[out++] = static_cast<Symbol>(step.merged);
    const uint32_t after = in == size ? words.first_of(units.next_of(number)) : symbols[in];
    if (after != kNoSymbol) job.add_right(after, number, count);
  }
  unit.num_symbols = static_cast<uint32_t>(out);
}

template <typename Symbol>
void apply(WordStore<Symbol>& words, const Job& job) {
  const auto& [step, worker, effects, pairs] = job;
  for (Side* side : {&effects.left, &effects.right}) {
    side->neighbours.clear();
    side->places.clear();
  }
  effects.num_replaced = 0;
  const uint32_t* const end = step.units.data() + step.units.size();
  const uint32_t* const first = std::lower_bound(step.units.data(), end, worker.first_unit);
  const uint32_t* const last = std::lower_bound(first, end, worker.end_unit);
  for (const uint32_t* at = first; at != last; ++at) {
    if (last - at > kPrefetchUnits) words.units.prefetch(at[kPrefetchUnits]);
    if (last - at > kPrefetchSymbols) __builtin_prefetch(words.begin(at[kPrefetchSymbols]), 1);
    if (!words.units.is_segment(*at)) {
      rewrite_word(words, *at, job);
    } else {
      rewrite_segment(words, *at, job);
    }
  }
  for (const Neighbour& neighbour : effects.left.neighbours) worker.left_index[neighbour.id] = 0;
  for (const Neighbour& neighbour : effects.right.neighbours) worker.right_index[neighbour.id] = 0;
}

}  // namespace tokcore
