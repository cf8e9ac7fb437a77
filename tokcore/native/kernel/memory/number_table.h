// DESCRIPTION
// NumberTable is a hash table from 64-bit keys to 32-bit numbers that is filled once and then only read. Open
// addressing. Thread-safe once filled.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace tokcore {

class NumberTable {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;

  // Empties the table and makes room for num_keys.
  void reset(size_t num_keys) {
    const size_t num_slots = std::bit_ceil(num_keys * 2 + 16);
    slots_.assign(num_slots, {0, kNone});
    mask_ = num_slots - 1;
    shift_ = 64 - static_cast<unsigned>(std::countr_zero(num_slots));
  }

  // The number of that key, which is added if it is new. number != kNone.
  uint32_t add(uint64_t key, uint32_t number) {
    Slot& slot = slots_[slot_of(key)];
    if (slot.number == kNone) slot = {key, number};
    return slot.number;
  }

  uint32_t find(uint64_t key) const { return slots_[slot_of(key)].number; }

 private:
  struct Slot {
    uint64_t key;
    uint32_t number;
  };

  size_t slot_of(uint64_t key) const {
    size_t at = (key * 0x9E3779B97F4A7C15u) >> shift_;
    while (slots_[at].number != kNone && slots_[at].key != key) at = (at + 1) & mask_;
    return at;
  }

  std::vector<Slot> slots_;
  size_t mask_ = 0;
  unsigned shift_ = 63;
};

}  // namespace tokcore
