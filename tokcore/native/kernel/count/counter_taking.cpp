// DESCRIPTION
// Counter::take and take_all: the rows of one or several counters, in the order of their keys.
#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstring>
#include <new>
#include <utility>

#include "count/counter_table.h"
#include "count/row_sort.h"
#include "count/sort_key.h"
#include "memory/worker_pool.h"

namespace tokcore {

// Sorts the rows of several counters by their keys. Rows are dealt by their first two bytes; each thread gets
// a range of those values.
class Counter::Taking {
 public:
  explicit Taking(const std::vector<Counter*>& counters) : counters_(counters), dealt_(counters.size()) {
    size_t most = 1;
    for (const Counter* counter : counters) {
      most = std::max(most, counter->num_rows_);
      num_rows_ += counter->num_rows_;
    }
    number_bits_ = std::bit_width(most);
    if (counters.size() > uint64_t{1} << (32 - number_bits_)) throw std::bad_alloc();  // at 64 GB of rows
    first_bits_ = num_rows_ < kManyRows ? 8 : 16;
    entries_ = Buffer<RowEntry>(num_rows_);
  }

  // Counts the rows of that counter for each value of the first bytes.
  void count(size_t which) {
    std::vector<uint32_t>& sizes = dealt_[which];
    sizes.resize(size_t{1} << first_bits_);
    for_each(which, [&](const SortKey& key, size_t) { ++sizes[first_of(key)]; });
  }

  // Cuts all values into ranges with about equally many rows.
  void cut(size_t num_ranges) {
    size_t start = 0, target = 0;
    for (size_t value = 0; value < dealt_[0].size(); ++value) {
      if (start >= target) {
        ranges_.push_back({value, start});
        target = std::max(start + 1, num_rows_ * ranges_.size() / num_ranges);
      }
      const size_t begin = start;
      for (std::vector<uint32_t>& sizes : dealt_)
        start += std::exchange(sizes[value], static_cast<uint32_t>(start));
      largest_ = std::max(largest_, start - begin);
    }
    ranges_.push_back({dealt_[0].size(), num_rows_});
  }
  size_t num_ranges() const { return ranges_.size() - 1; }

  void deal(size_t which) {
    std::vector<uint32_t>& ends = dealt_[which];
    for_each(which, [&](const SortKey& key, size_t number) {
      entries_[ends[first_of(key)]++] =
          RowEntry::of(key, static_cast<uint32_t>(which << number_bits_ | number));
    });
  }

  Rows rows_of(size_t range);

 private:
  class Writer;

  static constexpr size_t kManyRows = 1 << 14;
  static constexpr size_t kPrefetch = 32;

  struct Range {
    size_t value;  // the first value
    size_t start;  // of its entries
  };

  size_t first_of(const SortKey& key) const { return key.high >> (64 - first_bits_); }

  const Row& row(const RowEntry& entry) const {
    const uint32_t number = entry.number();
    return counters_[number >> number_bits_]->rows()[number & ((uint32_t{1} << number_bits_) - 1)];
  }

  static SortKey sort_key(const Row& row) {
    if (!row.is_long()) return {byte_swapped(row.key.low), byte_swapped(row.key.high)};
    const Arena::Head& head = Arena::at(row.key.low);
    return SortKey::of(head.key(), head.size, head.key() + head.size);
  }

  template <typename Action>
  void for_each(size_t which, Action action) const {
    const size_t size = counters_[which]->num_rows_;
    const Row* const rows = counters_[which]->rows();
    for (size_t number = 1; number <= size; ++number) {
      if (const Row& later = rows[std::min(size, number + kPrefetch)]; later.is_long()) {
        __builtin_prefetch(reinterpret_cast<const void*>(later.key.low));
      }
      action(sort_key(rows[number]), number);
    }
  }

  // Compares the keys of two rows, as memcmp: below 0, 0 or above 0.
  static int order(const Row& a, const Row& b) {
    const SortKey a_key = sort_key(a), b_key = sort_key(b);
    if (!(a_key == b_key)) return a_key < b_key ? -1 : 1;
    if (!a.is_long()) return 0;
    const Arena::Head &a_head = Arena::at(a.key.low), &b_head = Arena::at(b.key.low);
    if (const int bytes = std::memcmp(a_head.key(), b_head.key(), std::min(a_head.size, b_head.size)))
      return bytes;
    return a_head.size < b_head.size ? -1 : a_head.size > b_head.size ? 1 : 0;
  }

  const std::vector<Counter*>& counters_;
  size_t num_rows_ = 0;
  int number_bits_;  // bits of a row's number within its counter
  int first_bits_;
  size_t largest_ = 0;  // the most rows of one value
  // For each counter and value, one after the other: the number of its rows; where the next one goes; where
  // they end.
  std::vector<std::vector<uint32_t>> dealt_;
  Buffer<RowEntry> entries_;
  std::vector<Range> ranges_;
};

// Writes rows in the order in which they come. A row waits until its prefetched memory is there.
class Counter::Taking::Writer {
 public:
  static constexpr size_t kTied = 32;  // most rows tied together

  // adds_up: rows with the same key follow each other and are added up.
  Writer(size_t num_rows, size_t key_bytes, bool adds_up) : adds_up_(adds_up) {
    rows_.data.resize(key_bytes + kSlack);
    rows_.offsets.resize(num_rows + 1);
    rows_.counts.resize(num_rows);
    rows_.documents.resize(num_rows);
  }

  // is_tied: the row may belong before the last ones, back to one that was not tied; at most kTied rows.
  void add(const Row& row, bool is_tied) {
    if (num_waiting_ >= kWaiting && !is_tied) write();
    __builtin_prefetch(&row);
    is_tied_[num_waiting_] = is_tied;
    waiting_[num_waiting_++] = &row;
  }

  Rows finish() {
    write();
    rows_.data.resize(data_size_);
    rows_.offsets.resize(size_ + 1);
    rows_.counts.resize(size_);
    rows_.documents.resize(size_);
    return std::move(rows_);
  }

 private:
  static constexpr size_t kWaiting = 256;
  static constexpr size_t kSlack = 16;  // lets short keys be written as whole blocks

  // Short keys are equal if the rows' key fields are.
  static bool same_key(const Row& a, const Row& b) {
    return a.key.high == b.key.high && (a.is_long() ? order(a, b) == 0 : a.key.low == b.key.low);
  }

  void write() {
    size_t key_bytes = 0;
    for (size_t i = 0; i < num_waiting_; ++i) {
      const Row& row = *waiting_[i];
      if (row.is_long()) __builtin_prefetch(reinterpret_cast<const void*>(row.key.low));
      key_bytes += row.is_long() ? 0 : row.short_size();
    }
    for (size_t i = 0; i < num_waiting_; ++i)
      key_bytes += waiting_[i]->is_long() ? waiting_[i]->key_size() : 0;
    for (size_t i = 1; i < num_waiting_; ++i) {
      for (size_t j = i; is_tied_[j] && order(*waiting_[j], *waiting_[j - 1]) < 0; --j) {
        std::swap(waiting_[j], waiting_[j - 1]);
      }
    }
    const size_t needed = data_size_ + key_bytes + kSlack;
    if (needed > rows_.data.size()) rows_.data.resize(needed + needed / 2);

    uint8_t* place = rows_.data.data() + data_size_;
    size_t data_size = data_size_, size = size_;
    int64_t* const offsets = rows_.offsets.data() + 1;
    uint64_t* const counts = rows_.counts.data();
    uint64_t* const documents = rows_.documents.data();
    for (size_t i = 0; i < num_waiting_; ++i) {
      const Row& row = *waiting_[i];
      if (adds_up_ && size != 0 && same_key(*last_, row)) {
        counts[size - 1] += row.count;
        documents[size - 1] += row.documents;
        continue;
      }
      last_ = &row;
      const size_t key_size = row.key_size();
      if (row.is_long()) [[unlikely]] {
        std::memcpy(place, Arena::at(row.key.low).key(), key_size);
      } else {
        const uint64_t words[] = {little_endian(row.key.low), little_endian(row.key.high)};
        std::memcpy(place, words, sizeof words);  // the next key overwrites the excess
      }
      place += key_size;
      data_size += key_size;
      offsets[size] = static_cast<int64_t>(data_size);
      counts[size] = row.count;
      documents[size] = row.documents;
      ++size;
    }
    data_size_ = data_size;
    size_ = size;
    num_waiting_ = 0;
  }

  Rows rows_;
  size_t size_ = 0;
  size_t data_size_ = 0;
  const Row* last_ = nullptr;
  bool adds_up_;
  size_t num_waiting_ = 0;
  std::array<const Row*, kWaiting + kTied> waiting_;
  std::array<bool, kWaiting + kTied> is_tied_;
};

Rows Counter::Taking::rows_of(size_t range) {
  const Range from = ranges_[range], to = ranges_[range + 1];
  const size_t num_rows = to.start - from.start;
  // An estimate from the average of all rows; exact for one range.
  size_t key_bytes = 0;
  for (const Counter* counter : counters_) key_bytes += counter->key_bytes_;
  if (num_rows != num_rows_) key_bytes = key_bytes / num_rows_ * num_rows / 8 * 9;
  Writer writer(num_rows, key_bytes, counters_.size() > 1);
  Buffer<RowEntry> spare(largest_);
  const auto before = [&](const RowEntry& a, const RowEntry& b) { return order(row(a), row(b)) < 0; };
  const auto visit = [&](const RowEntry& entry, bool is_tied) { writer.add(row(entry), is_tied); };
  RowSort sort(before, visit);
  static_assert(sort.kFew <= Writer::kTied);
  sort.visit_dealt(entries_.data(), dealt_.back().data() + from.value, to.value - from.value, from.start, 0,
                   first_bits_ / 8, [&](size_t) { return spare.data(); });
  return writer.finish();
}

std::vector<Rows> Counter::take_all(const std::vector<Counter*>& counters, size_t num_threads) {
  if (counters.empty()) return {};
  std::vector<Empty> empty(counters.size());  // allocate before anything changes
  Taking taking(counters);
  WorkerPool pool(num_threads);
  std::atomic<size_t> next;
  const auto each = [&](size_t size, const auto& action) {
    next = 0;
    pool.run([&](size_t) {
      for (size_t i; (i = next.fetch_add(1)) < size;) action(i);
    });
  };
  each(counters.size(), [&](size_t i) { taking.count(i); });
  taking.cut(num_threads);
  each(counters.size(), [&](size_t i) { taking.deal(i); });
  std::vector<Rows> out(taking.num_ranges());
  each(out.size(), [&](size_t i) { out[i] = taking.rows_of(i); });
  for (size_t i = 0; i < counters.size(); ++i) counters[i]->clear(std::move(empty[i]));
  return out;
}

}  // namespace tokcore
