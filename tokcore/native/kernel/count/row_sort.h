// DESCRIPTION
// RowSort visits rows in the order of their keys without moving them. Its input is an entry for each row: the
// first 12 bytes of its sort key, and a number of 32 bits by which `before` and `visit` know the row. This is
// a radix sort that begins with the first byte; few entries are sorted by comparison. Rows are read only if
// 12 bytes do not tell them apart. Cost: about four moves of 16 bytes a row for the pre-tokens of real text.
// Not thread-safe.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

#include "count/sort_key.h"

namespace tokcore {

struct RowEntry {
  static constexpr size_t kKeyBytes = 12;
  static constexpr int kNumberBits = 32;

  uint64_t high;
  uint64_t low;

  static RowEntry of(const SortKey& key, uint32_t number) {
    return {key.high, key.low >> kNumberBits << kNumberBits | number};
  }
  uint32_t number() const { return static_cast<uint32_t>(low); }
  bool starts_as(const RowEntry& other) const {
    return high == other.high && (low ^ other.low) >> kNumberBits == 0;
  }
  // Four bytes of the key from byte i on; i is at most kKeyBytes.
  uint32_t four_bytes(size_t i) const {
    if (i >= 8) return static_cast<uint32_t>(low >> 32) << 8 * (i - 8);
    return static_cast<uint32_t>((i <= 4 ? high << 8 * i : high << 8 * i | low >> (64 - 8 * i)) >> 32);
  }
  uint8_t byte(size_t i) const { return static_cast<uint8_t>((i < 8 ? high : low) >> (56 - 8 * (i & 7))); }
  friend bool operator<(const RowEntry& a, const RowEntry& b) {
    return SortKey{a.high, a.low} < SortKey{b.high, b.low};
  }
};

// before(a, b): whether the row of a comes first, for entries with the same key bytes. visit(entry, is_tied)
// gets entries in order. But a tied row may belong before the last ones, back to one that was not tied; at
// most kFew rows in a row are tied.
template <typename Before, typename Visit>
class RowSort {
 public:
  static constexpr size_t kFew = 32;

  RowSort(Before before, Visit visit) : before_(std::move(before)), visit_(std::move(visit)) {}

  // All entries share their first `byte` bytes. Both arrays have room for `size` entries and are overwritten.
  void visit_in_order(RowEntry* entries, RowEntry* spare, size_t size, size_t byte) {
    if (size <= kFew || byte == RowEntry::kKeyBytes) return compare(entries, size, byte);
    std::array<uint32_t, 256> ends{};
    for (size_t i = 0; i < size; ++i) ++ends[entries[i].byte(byte)];
    if (ends[entries[0].byte(byte)] == size) return visit_in_order(entries, spare, size, byte + 1);
    uint32_t start = 0;
    for (uint32_t& end : ends) start += std::exchange(end, start);
    for (size_t i = 0; i < size; ++i) spare[ends[entries[i].byte(byte)]++] = entries[i];
    visit_dealt(spare, ends.data(), ends.size(), 0, byte, byte + 1,
                [=](size_t first) { return entries + first; });
  }

  // Visits entries from `start` on that share their first `byte` bytes and are dealt by the bytes up to
  // `next_byte`; ends: where the entries of each value end. spare_for(i): spare room for the entries from i
  // on.
  template <typename SpareFor>
  void visit_dealt(RowEntry* entries, const uint32_t* ends, size_t num_values, size_t start, size_t byte,
                   size_t next_byte, SpareFor spare_for) {
    // Values with few entries are sorted together.
    size_t begin = start;
    for (size_t value = 0; value < num_values; ++value) {
      const size_t end = ends[value];
      if (end - begin > kFew) {
        if (start > begin) compare(entries + begin, start - begin, byte);
        begin = start;
        if (end - begin > kFew) {
          visit_in_order(entries + begin, spare_for(begin), end - begin, next_byte);
          begin = end;
        }
      }
      start = end;
    }
    if (start > begin) compare(entries + begin, start - begin, byte);
  }

  // For few entries, or entries with equal key bytes; they share their first `byte` bytes.
  void compare(RowEntry* entries, size_t size, size_t byte) {
    if (size <= kFew) sort_few(entries, size, byte);
    for (size_t i = 0; i < size;) {
      size_t end = i + 1;
      while (end < size && entries[end].starts_as(entries[i])) ++end;
      const bool are_many = end - i > kFew;
      if (are_many) std::sort(entries + i, entries + end, before_);
      for (const size_t first = i; i < end; ++i) visit_(entries[i], i != first && !are_many);
    }
  }

 private:
  // Counts for each entry how many come before it, which needs no branches; compares 27 bits first.
  static void sort_few(RowEntry* entries, size_t size, size_t byte) {
    using Four = int32_t __attribute__((vector_size(16)));
    constexpr size_t kBlock = sizeof(Four) / sizeof(int32_t);
    alignas(Four) std::array<int32_t, kFew> keys{};
    std::array<RowEntry, kFew> copy;
    for (size_t i = 0; i < size; ++i) {
      copy[i] = entries[i];
      const uint32_t key = (entries[i].four_bytes(byte) & ~uint32_t{kFew - 1}) | static_cast<uint32_t>(i);
      keys[i] = static_cast<int32_t>(key ^ 0x80000000u);  // the comparison is signed
    }
    for (size_t begin = 0; begin < size; begin += kBlock) {
      Four block, places{};
      std::memcpy(&block, keys.data() + begin, sizeof block);
      for (size_t i = 0; i < size; ++i) places -= (Four{} + keys[i]) < block;
      for (size_t i = 0; i < kBlock && begin + i < size; ++i) entries[places[i]] = copy[begin + i];
    }
    for (size_t i = 1; i < size; ++i) {
      if (!(entries[i] < entries[i - 1])) [[likely]]
        continue;
      const RowEntry entry = entries[i];
      size_t place = i;
      for (; place > 0 && entry < entries[place - 1]; --place) entries[place] = entries[place - 1];
      entries[place] = entry;
    }
  }

  Before before_;
  Visit visit_;
};

}  // namespace tokcore
