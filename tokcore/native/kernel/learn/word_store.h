// DESCRIPTION
// WordStore holds the symbols of all words, back to back, in units. A word of up to kMaxUnit symbols is one
// unit. A longer word is a linked chain of units of kSegment symbols, so that no step has to read all of it.
// Units shrink in place. A pair belongs to the unit of its left symbol. Threads may work on different words
// at once.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <utility>
#include <vector>

#include "memory/buffer.h"

namespace tokcore {

inline constexpr uint32_t kNoUnit = std::numeric_limits<uint32_t>::max();
inline constexpr uint32_t kNoSymbol = std::numeric_limits<uint32_t>::max();

// The counts, places and links of units; not their symbols.
class Units {
 public:
  static constexpr size_t kMaxUnit = 256;
  static constexpr size_t kSegment = 64;

  struct Unit {
    uint64_t count;        // of its word
    uint32_t start;        // of its symbols, from the base of its block
    uint32_t num_symbols;  // that are left
  };

  void reserve(size_t num_units) {
    units_.reserve(num_units);
    bases_.reserve((num_units >> kBlockBits) + 1);
  }
  // Inlined everywhere: compilers call it otherwise, which takes 1 % of learning.
  [[gnu::always_inline]] void add(uint64_t count, uint64_t start, size_t num_symbols) {
    if ((units_.size() & (kBlock - 1)) == 0) bases_.push_back(start);
    units_.push_back(
        {count, static_cast<uint32_t>(start - bases_.back()), static_cast<uint32_t>(num_symbols)});
  }
  // From now on, added units are segments of long words.
  void begin_chains() { first_chained_ = units_.size(); }
  void add_link(bool is_first, bool is_last) {
    const auto unit = static_cast<uint32_t>(first_chained_ + next_.size());
    previous_.push_back(is_first ? kNoUnit : unit - 1);
    next_.push_back(is_last ? kNoUnit : unit + 1);
  }
  // Closes the gaps between units: calls copy(from, to, num_symbols) for each, in order.
  template <typename Copy>
  void pack(Copy copy) {
    uint64_t to = 0;
    for (size_t block = 0; block < bases_.size(); ++block) {
      const uint64_t from = std::exchange(bases_[block], to);
      for (size_t i = block << kBlockBits; i < std::min(units_.size(), (block + 1) << kBlockBits); ++i) {
        copy(from + units_[i].start, to, units_[i].num_symbols);
        units_[i].start = static_cast<uint32_t>(to - bases_[block]);
        to += units_[i].num_symbols;
      }
    }
  }

  size_t size() const { return units_.size(); }
  Unit& operator[](size_t unit) { return units_[unit]; }
  uint64_t start_of(size_t unit) const { return bases_[unit >> kBlockBits] + units_[unit].start; }
  void prefetch(size_t unit) const { __builtin_prefetch(&units_[unit], 1); }

  bool is_segment(size_t unit) const { return unit >= first_chained_; }
  // The nearest non-empty units of the same word; kNoUnit if there is none.
  uint32_t next_of(size_t unit) const { return is_segment(unit) ? next_[unit - first_chained_] : kNoUnit; }
  uint32_t previous_of(size_t unit) const {
    return is_segment(unit) ? previous_[unit - first_chained_] : kNoUnit;
  }
  void unlink(uint32_t unit) {
    const uint32_t before = previous_of(unit), after = next_of(unit);
    if (before != kNoUnit) next_[before - first_chained_] = after;
    if (after != kNoUnit) previous_[after - first_chained_] = before;
  }

 private:
  static constexpr size_t kBlockBits = 12;  // 4,096 units of at most 256 symbols fit 32 bits easily
  static constexpr size_t kBlock = size_t{1} << kBlockBits;
  Buffer<Unit> units_;
  std::vector<uint64_t> bases_;
  size_t first_chained_ = std::numeric_limits<size_t>::max();
  std::vector<uint32_t> previous_;
  std::vector<uint32_t> next_;
};

template <typename Symbol>
class WordStore {
 public:
  Units units;

  // Makes room for that many symbols, without values.
  void allocate(uint64_t num_symbols) { memory_.resize(num_symbols * sizeof(Symbol)); }
  Symbol* symbols() const { return reinterpret_cast<Symbol*>(const_cast<uint8_t*>(memory_.data())); }
  Symbol* begin(size_t unit) const { return symbols() + units.start_of(unit); }

  uint32_t first_of(uint32_t unit) { return unit == kNoUnit ? kNoSymbol : *begin(unit); }
  uint32_t last_of(uint32_t unit) {
    return unit == kNoUnit ? kNoSymbol : begin(unit)[units[unit].num_symbols - 1];
  }

  // Removes the first symbol of a segment, and unlinks the segment if it becomes empty.
  void drop_first(uint32_t unit) {
    Symbol* const at = begin(unit);
    const uint32_t left = --units[unit].num_symbols;
    for (uint32_t i = 0; i < left; ++i) at[i] = at[i + 1];
    if (left == 0) units.unlink(unit);
  }

  // The same words with wider symbols, without gaps. Uses the same memory if they fit: when at most half of
  // the symbols are left.
  template <typename Wide>
  WordStore<Wide> widen() && {
    uint64_t num_symbols = 0;
    units.pack([&](uint64_t old_start, uint64_t new_start, uint32_t size) {
      std::memmove(symbols() + new_start, symbols() + old_start, size * sizeof(Symbol));
      num_symbols += size;
    });
    WordStore<Wide> wide;
    if (num_symbols * sizeof(Wide) > memory_.size()) {
      wide.allocate(num_symbols);
    } else {
      wide.memory_ = std::move(memory_);
    }
    wide.units = std::move(units);
    // From the back, so that no symbol is overwritten before it is read. Copied as bytes, because the types
    // differ.
    const uint8_t* const from = memory_.empty() ? wide.memory_.data() : memory_.data();
    for (uint64_t i = num_symbols; i-- > 0;) {
      Symbol symbol;
      std::memcpy(&symbol, from + i * sizeof(Symbol), sizeof symbol);
      const Wide value = symbol;
      std::memcpy(wide.memory_.data() + i * sizeof(Wide), &value, sizeof value);
    }
    memory_ = {};
    return wide;
  }

 private:
  template <typename Other>
  friend class WordStore;

  Buffer<uint8_t> memory_;
};

}  // namespace tokcore
