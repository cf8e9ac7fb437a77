#include "count/row_merger.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace tokcore {

namespace {

// The sort key of a run without rows. A long key that begins with fifteen 255s has the same one, so ties are
// decided by asking the runs.
constexpr SortKey kNoRow{~uint64_t{0}, ~uint64_t{0}};

}  // namespace

RowMerger::RowMerger(std::vector<uint64_t> multipliers)
    : multipliers_(std::move(multipliers)), runs_(multipliers_.size()), losers_(multipliers_.size()) {}

void RowMerger::feed(size_t index, const RowView& rows) {
  Run& run = runs_[index];
  run.rows = rows;
  run.num_decoded = 0;
  run.window_next = run.window_size = 0;
}

// Decodes the next rows of a run whose window is empty. Stops and returns false at a row that does not come
// after the one before it.
bool RowMerger::decode(Run& run) {
  const RowView& rows = run.rows;
  const size_t begin = run.num_decoded;
  const size_t size = std::min(kWindow, rows.size - begin);
  run.window_next = run.window_size = 0;
  if (size == 0) return true;
  const uint8_t* last = run.last_key.data();
  size_t last_size = run.last_key.size();
  if (begin > 0) {
    last = run.key(begin - 1);
    last_size = run.key_size(begin - 1);
  }
  const uint8_t* const limit = rows.data + rows.offsets[rows.size];
  SortKey last_sort_key = SortKey::of(last, last_size, last + last_size);
  for (size_t i = begin; i < begin + size; ++i) {
    const SortKey sort_key = SortKey::of(run.key(i), run.key_size(i), limit);
    const bool ascends = last_sort_key == sort_key && !sort_key.is_whole()
                             ? key_before(last, last_size, run.key(i), run.key_size(i))
                             : last_sort_key < sort_key;
    if (!ascends && (i > 0 || run.any)) return false;
    run.window[i - begin] = {sort_key, rows.counts[i], rows.documents[i]};
    last = run.key(i);
    last_size = run.key_size(i);
    last_sort_key = sort_key;
    ++run.num_decoded;
    ++run.window_size;
  }
  if (run.num_decoded == rows.size) {
    run.last_key.assign(last, last + last_size);
    run.any = true;
  }
  return true;
}

std::vector<size_t> RowMerger::hungry() const {
  std::vector<size_t> result;
  for (size_t i = 0; i < runs_.size(); ++i) {
    const Run& run = runs_[i];
    if (!run.finished && run.empty() && run.num_decoded == run.rows.size) result.push_back(i);
  }
  return result;
}

bool RowMerger::done() const {
  return std::all_of(runs_.begin(), runs_.end(), [](const Run& run) {
    return run.finished && run.empty() && run.num_decoded == run.rows.size;
  });
}

inline RowMerger::Player RowMerger::player(uint64_t run) const {
  return {runs_[run].empty() ? kNoRow : runs_[run].next().key, run};
}

// Equal keys come in any order of runs, and a run without rows comes last.
inline bool RowMerger::before(const Player& a, const Player& b) const {
  if (a.key == b.key && static_cast<uint8_t>(a.key.low) == 255) [[unlikely]] {
    const Run &left = runs_[a.run], &right = runs_[b.run];
    if (left.empty() || right.empty()) return !left.empty();
    const size_t i = left.row(), j = right.row();
    return key_before(left.key(i), left.key_size(i), right.key(j), right.key_size(j));
  }
  return a.key < b.key;
}

inline bool RowMerger::same_key(const Player& player, const SortKey& sort_key, const uint8_t* key,
                                size_t size) const {
  if (!(player.key == sort_key)) return false;
  if (sort_key.is_whole()) return true;
  const Run& run = runs_[player.run];
  return !run.empty() && run.key_size(run.row()) == size && std::memcmp(run.key(run.row()), key, size) == 0;
}

// A tournament tree: node n has the children 2n and 2n + 1, and node i + size stands for run i. Each node
// holds the loser of its match.
void RowMerger::build() {
  const size_t size = runs_.size();
  std::vector<Player> winners(2 * size);
  for (size_t i = 0; i < size; ++i) winners[size + i] = player(i);
  for (size_t node = size - 1; node >= 1; --node) {
    const Player &a = winners[2 * node], &b = winners[2 * node + 1];
    const bool a_wins = before(a, b);
    winners[node] = a_wins ? a : b;
    losers_[node] = a_wins ? b : a;
  }
  losers_[0] = winners[1];
}

inline void RowMerger::replay(uint64_t run) {
  Player winner = player(run);
  for (size_t node = (runs_.size() + run) / 2; node >= 1; node /= 2) {
    // Swap by arithmetic: which one wins cannot be predicted.
    Player& loser = losers_[node];
    const uint64_t mask = -static_cast<uint64_t>(before(loser, winner));
    const auto swap = [mask](uint64_t& a, uint64_t& b) {
      const uint64_t change = (a ^ b) & mask;
      a ^= change;
      b ^= change;
    };
    swap(loser.key.high, winner.key.high);
    swap(loser.key.low, winner.key.low);
    swap(loser.run, winner.run);
  }
  losers_[0] = winner;
}

MergeResult RowMerger::merge(size_t max_rows, Rows& out) {
  if (runs_.empty() || !hungry().empty()) return {};
  for (size_t i = 0; i < runs_.size(); ++i) {
    if (runs_[i].empty() && !decode(runs_[i])) return {MergeStatus::kNotSorted, i, runs_[i].num_decoded};
  }
  build();
  constexpr size_t kSlack = 16;  // lets short keys be written as whole blocks
  constexpr size_t kMoreRows = 1 << 16;
  size_t data_size = out.data.size(), num_rows = out.size(), room = num_rows;
  MergeResult result;
  for (bool stops = false; !stops && num_rows < max_rows && data_size < kMaxBytes;) {
    uint64_t index = losers_[0].run;
    const SortKey sort_key = losers_[0].key;
    if (sort_key == kNoRow && runs_[index].empty()) break;
    // The key stays in its block while equal keys are added: the caller keeps blocks until it feeds others.
    const size_t row = runs_[index].row();
    const uint8_t* const key = runs_[index].key(row);
    const size_t size = runs_[index].key_size(row);
    uint64_t count = 0, documents = 0;
    bool overflows = false;
    do {
      Run& run = runs_[index];
      uint64_t product;
      overflows |= __builtin_mul_overflow(run.next().count, multipliers_[index], &product);
      overflows |= __builtin_add_overflow(count, product, &count);
      overflows |= __builtin_add_overflow(documents, run.next().documents, &documents);
      ++run.window_next;
      if (run.empty()) [[unlikely]] {
        if (!decode(run)) {
          result = {MergeStatus::kNotSorted, static_cast<size_t>(index), run.num_decoded};
          stops = true;
        }
        // The rows that this run is still to be fed come after this key. So other runs' rows of the same key
        // can still be added before stopping.
        if (run.empty() && !run.finished) stops = true;
      }
      replay(index);
      index = losers_[0].run;
    } while (same_key(losers_[0], sort_key, key, size));
    if (data_size + size + kSlack > out.data.size()) out.data.resize((data_size + size + kSlack) * 3 / 2);
    if (sort_key.is_whole()) {
      sort_key.write(out.data.data() + data_size);
    } else {
      std::memcpy(out.data.data() + data_size, key, size);
    }
    data_size += size;
    if (num_rows == room) {
      room = std::min(max_rows, room + kMoreRows);
      out.offsets.resize(room + 1);
      out.counts.resize(room);
      out.documents.resize(room);
    }
    out.offsets[num_rows + 1] = static_cast<int64_t>(data_size);
    out.counts[num_rows] = count;
    out.documents[num_rows] = documents;
    if (overflows) {
      result = {MergeStatus::kOverflow, 0, num_rows};
      break;
    }
    ++num_rows;
  }
  out.data.resize(data_size);
  out.offsets.resize(num_rows + 1);
  out.counts.resize(num_rows);
  out.documents.resize(num_rows);
  return result;
}

}  // namespace tokcore
