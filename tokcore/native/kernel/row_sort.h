// DESCRIPTION
// RowSort visits rows in the order of their keys. Rows have a SortKey `key`; `before` is asked where that may
// not tell two apart. They are dealt by one byte after the other, from the first on, and few rows are sorted
// by comparing them. `rows` and `spare` have room for `size` rows each; both are overwritten. Cost: about
// four moves a row for the pre-tokens of real text.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "sort_key.h"

namespace tokcore {

template <typename Row, typename Before, typename Visit>
class RowSort {
 public:
  RowSort(Before before, Visit visit) : before_(std::move(before)), visit_(std::move(visit)) {}

  void visit_in_order(Row* rows, Row* spare, size_t size) { deal(rows, spare, size, 0); }

 private:
  static constexpr size_t kFew = 32;
  static constexpr size_t kKeyBytes = 16;

  // The rows have the first `byte` bytes of their sort keys in common.
  void deal(Row* rows, Row* spare, size_t size, size_t byte) {
    if (size <= kFew || byte == kKeyBytes) return compare(rows, size);
    const auto digit_of = [byte](const Row& row) {
      return static_cast<uint8_t>((byte < 8 ? row.key.high : row.key.low) >> (56 - 8 * (byte & 7)));
    };
    std::array<size_t, 256> ends{};
    for (size_t i = 0; i < size; ++i) ++ends[digit_of(rows[i])];
    if (ends[digit_of(rows[0])] == size) return deal(rows, spare, size, byte + 1);
    size_t start = 0;
    for (size_t& end : ends) start += std::exchange(end, start);
    for (size_t i = 0; i < size; ++i) spare[ends[digit_of(rows[i])]++] = rows[i];
    start = 0;
    for (const size_t end : ends) {
      if (end != start) deal(spare + start, rows + start, end - start, byte + 1);
      start = end;
    }
  }

  void compare(Row* rows, size_t size) {
    if (size > kFew) {
      std::sort(rows, rows + size, before_);
    } else {
      for (size_t i = 1; i < size; ++i) {
        const Row row = rows[i];
        size_t place = i;
        for (; place > 0 && before_(row, rows[place - 1]); --place) rows[place] = rows[place - 1];
        rows[place] = row;
      }
    }
    for (size_t i = 0; i < size; ++i) visit_(rows[i]);
  }

  Before before_;
  Visit visit_;
};

}  // namespace tokcore
