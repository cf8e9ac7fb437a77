#include "row_merger.h"

#include <algorithm>
#include <cstring>

#include "hash.h"

namespace tokcore {

namespace {

bool add_checked(uint64_t& sum, uint64_t value) {
  sum += value;
  return sum >= value;
}

bool multiply_checked(uint64_t a, uint64_t b, uint64_t& product) {
  product = a * b;
  return a == 0 || product / a == b;
}

int compare(const uint8_t* a, size_t a_size, const uint8_t* b, size_t b_size) {
  const size_t common = std::min(a_size, b_size);
  const int order = common == 0 ? 0 : std::memcmp(a, b, common);
  if (order != 0) return order;
  return a_size < b_size ? -1 : a_size > b_size ? 1 : 0;
}

}  // namespace

RowMerger::RowMerger(std::vector<uint64_t> multipliers)
    : multipliers_(std::move(multipliers)),
      runs_(multipliers_.size()),
      heads_(multipliers_.size()),
      losers_(multipliers_.size()) {}

MergeResult RowMerger::feed(size_t index, const RowView& rows) {
  if (rows.size == 0) return {MergeStatus::kOk, 0};
  Run& run = runs_[index];
  const uint8_t* last = run.last_key.data();
  size_t last_size = run.last_key.size();
  bool any = run.any;
  for (size_t i = 0; i < rows.size; ++i) {
    const uint8_t* key = rows.data + rows.offsets[i];
    const auto size = static_cast<size_t>(rows.offsets[i + 1] - rows.offsets[i]);
    if (any && compare(last, last_size, key, size) >= 0) return {MergeStatus::kNotSorted, i};
    last = key;
    last_size = size;
    any = true;
  }
  Rows& held = run.rows;
  if (run.next == held.size()) {
    held.data.clear();
    held.offsets.assign(1, 0);
    held.counts.clear();
    held.documents.clear();
    run.next = 0;
  }
  const auto base = static_cast<int64_t>(held.data.size()) - rows.offsets[0];
  held.data.insert(held.data.end(), rows.data + rows.offsets[0], rows.data + rows.offsets[rows.size]);
  held.offsets.reserve(held.offsets.size() + rows.size);
  for (size_t i = 1; i <= rows.size; ++i) held.offsets.push_back(rows.offsets[i] + base);
  held.counts.insert(held.counts.end(), rows.counts, rows.counts + rows.size);
  held.documents.insert(held.documents.end(), rows.documents, rows.documents + rows.size);
  run.last_key.assign(last, last + last_size);
  run.any = true;
  return {MergeStatus::kOk, 0};
}

std::vector<size_t> RowMerger::hungry() const {
  std::vector<size_t> result;
  for (size_t i = 0; i < runs_.size(); ++i) {
    if (!runs_[i].finished && runs_[i].next == runs_[i].rows.size()) result.push_back(i);
  }
  return result;
}

bool RowMerger::done() const {
  return std::all_of(runs_.begin(), runs_.end(),
                     [](const Run& run) { return run.finished && run.next == run.rows.size(); });
}

inline void RowMerger::load_head(size_t index) {
  const Run& run = runs_[index];
  Head& head = heads_[index];
  head.empty = run.next == run.rows.size();
  if (head.empty) return;
  const int64_t begin = run.rows.offsets[run.next];
  head.key = run.rows.data.data() + begin;
  head.size = static_cast<size_t>(run.rows.offsets[run.next + 1] - begin);
  const uint8_t* const limit = run.rows.data.data() + run.rows.data.size();
  head.prefix = byte_swapped(load_block(head.key, std::min<size_t>(head.size, 8), limit).low);
}

inline bool RowMerger::before(uint32_t a, uint32_t b) const {
  const Head &left = heads_[a], &right = heads_[b];
  if (left.empty || right.empty) return left.empty == right.empty ? a < b : right.empty;
  if (left.prefix != right.prefix) return left.prefix < right.prefix;
  const int order = compare(left.key, left.size, right.key, right.size);
  return order != 0 ? order < 0 : a < b;
}

// Leaves are runs; node n has the children 2n and 2n + 1, node i + size standing for run i. Each node holds
// the loser of its match.
void RowMerger::build() {
  const size_t size = runs_.size();
  std::vector<uint32_t> winners(2 * size);
  for (size_t i = 0; i < size; ++i) {
    load_head(i);
    winners[size + i] = static_cast<uint32_t>(i);
  }
  for (size_t node = size - 1; node >= 1; --node) {
    const uint32_t a = winners[2 * node], b = winners[2 * node + 1];
    const bool a_wins = before(a, b);
    winners[node] = a_wins ? a : b;
    losers_[node] = a_wins ? b : a;
  }
  losers_[0] = size == 1 ? 0 : winners[1];
}

inline void RowMerger::replay(uint32_t run) {
  uint32_t winner = run;
  for (size_t node = (runs_.size() + run) / 2; node >= 1; node /= 2) {
    if (before(losers_[node], winner)) std::swap(losers_[node], winner);
  }
  losers_[0] = winner;
}

inline bool RowMerger::same_key(uint32_t run, const uint8_t* key, size_t size, uint64_t prefix) const {
  const Head& head = heads_[run];
  return !head.empty && head.prefix == prefix && head.size == size && std::memcmp(head.key, key, size) == 0;
}

MergeResult RowMerger::merge(size_t max_rows, Rows& out) {
  if (runs_.empty() || !hungry().empty()) return {MergeStatus::kOk, 0};
  build();
  bool starving = false;
  while (!starving && out.size() < max_rows && out.data.size() < kMaxBytes) {
    uint32_t run = losers_[0];
    if (heads_[run].empty) break;
    // The key stays where it is while equal ones are added: runs are only overwritten by feed().
    const Head head = heads_[run];
    uint64_t count = 0, documents = 0;
    do {
      Run& source = runs_[run];
      uint64_t product;
      if (!multiply_checked(source.rows.counts[source.next], multipliers_[run], product) ||
          !add_checked(count, product) || !add_checked(documents, source.rows.documents[source.next])) {
        out.data.insert(out.data.end(), head.key, head.key + head.size);
        out.offsets.push_back(static_cast<int64_t>(out.data.size()));
        return {MergeStatus::kOverflow, out.size()};
      }
      ++source.next;
      load_head(run);
      // What a run without rows would bring is after this key, so its equals can still be added.
      starving |= heads_[run].empty && !source.finished;
      replay(run);
      run = losers_[0];
    } while (same_key(run, head.key, head.size, head.prefix));
    out.data.insert(out.data.end(), head.key, head.key + head.size);
    out.offsets.push_back(static_cast<int64_t>(out.data.size()));
    out.counts.push_back(count);
    out.documents.push_back(documents);
  }
  return {MergeStatus::kOk, out.size()};
}

}  // namespace tokcore
