// DESCRIPTION
// WordStore holds the symbols of all words that are still longer than one symbol can be, back to back, in
// units: a word of up to kMaxUnit symbols is one unit; a longer one is a chain of units of kSegment symbols,
// linked, so that nothing has to look at all of it. Units shrink in place; the places left over at a unit's
// end hold kHole. A pair belongs to the unit of its left symbol. Different words may be worked on by
// different threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

namespace tokcore {

class UnitStarts {
 public:
  void resize(size_t num_units) {
    bases_.resize((num_units >> kBlockBits) + 1);
    starts_ = std::make_unique_for_overwrite<uint32_t[]>(num_units + 1);
  }
  // To be called for units in ascending order, and once for their number.
  void set(size_t unit, uint64_t start) {
    if ((unit & (kBlock - 1)) == 0) bases_[unit >> kBlockBits] = start;
    starts_[unit] = static_cast<uint32_t>(start - bases_[unit >> kBlockBits]);
  }
  uint64_t operator[](size_t unit) const { return bases_[unit >> kBlockBits] + starts_[unit]; }
  void prefetch(size_t unit) const { __builtin_prefetch(&starts_[unit]); }

 private:
  static constexpr size_t kBlockBits = 12;  // 4,096 units of at most 256 symbols fit 32 bits many times over
  static constexpr size_t kBlock = size_t{1} << kBlockBits;
  std::vector<uint64_t> bases_;
  std::unique_ptr<uint32_t[]> starts_;
};

template <typename Symbol>
class WordStore {
 public:
  static constexpr size_t kMaxUnit = 256;
  static constexpr size_t kSegment = 64;
  static constexpr Symbol kHole = std::numeric_limits<Symbol>::max();
  static constexpr uint32_t kNone = std::numeric_limits<uint32_t>::max();

  UnitStarts starts;                  // num_units + 1
  std::unique_ptr<Symbol[]> symbols;  // starts[num_units] of them
  std::vector<uint64_t> counts;       // of each unit's word
  size_t first_chained = 0;           // units from here on are segments
  std::vector<uint32_t> previous;     // of segments that are not empty; kNone at the ends of a word
  std::vector<uint32_t> next;

  size_t num_units() const { return counts.size(); }
  Symbol* begin(size_t unit) { return symbols.get() + starts[unit]; }
  Symbol* end(size_t unit) { return symbols.get() + starts[unit + 1]; }

  bool chained(size_t unit) const { return unit >= first_chained; }
  uint32_t next_of(size_t unit) const { return chained(unit) ? next[unit - first_chained] : kNone; }
  uint32_t previous_of(size_t unit) const { return chained(unit) ? previous[unit - first_chained] : kNone; }

  Symbol first_of(uint32_t unit) { return unit == kNone ? kHole : *begin(unit); }
  Symbol last_of(uint32_t unit) {
    if (unit == kNone) return kHole;
    Symbol last = kHole;
    for (Symbol *at = begin(unit), *stop = end(unit); at != stop && *at != kHole; ++at) last = *at;
    return last;
  }

  // Takes the first symbol away from a segment; an empty one is unlinked.
  void drop_first(uint32_t unit) {
    Symbol* at = begin(unit);
    Symbol* const stop = end(unit);
    for (; at + 1 != stop && at[1] != kHole; ++at) at[0] = at[1];
    *at = kHole;
    if (*begin(unit) != kHole) return;
    const uint32_t before = previous_of(unit), after = next_of(unit);
    if (before != kNone) next[before - first_chained] = after;
    if (after != kNone) previous[after - first_chained] = before;
  }
};

// The same words with wider symbols and without holes.
template <typename To, typename From>
WordStore<To> widened(WordStore<From>&& from) {
  WordStore<To> to;
  uint64_t num_symbols = 0;
  const size_t num_units = from.num_units();
  for (uint64_t i = 0; i < from.starts[num_units]; ++i) num_symbols += from.symbols[i] != from.kHole;
  to.starts.resize(num_units);
  to.symbols = std::make_unique_for_overwrite<To[]>(num_symbols);
  uint64_t position = 0;
  for (size_t unit = 0; unit < num_units; ++unit) {
    to.starts.set(unit, position);
    for (From *at = from.begin(unit), *stop = from.end(unit); at != stop && *at != from.kHole; ++at) {
      to.symbols[position++] = *at;
    }
  }
  to.starts.set(num_units, position);
  to.counts = std::move(from.counts);
  to.first_chained = from.first_chained;
  to.previous = std::move(from.previous);
  to.next = std::move(from.next);
  return to;
}

}  // namespace tokcore
