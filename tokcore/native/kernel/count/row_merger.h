// DESCRIPTION
// RowMerger merges sorted runs of count rows into one and adds up the counts of equal keys, each run's counts
// times its multiplier. Runs are fed in blocks, which stay the caller's.
// Protocol: feed or finish every run of hungry(); merge(); repeat until done(). The result depends on the
// rows alone, not on how they were cut into blocks. Cost: about log2(runs) comparisons of 8 bytes for each
// row. Not thread-safe.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "count/rows.h"
#include "count/sort_key.h"

namespace tokcore {

enum class MergeStatus : uint8_t {
  kOk,
  kNotSorted,  // a key that is not after the one before it in its run
  kOverflow,   // a sum, or a count times its multiplier, passes 2^64 - 1
};

struct [[nodiscard]] MergeResult {
  MergeStatus status = MergeStatus::kOk;
  size_t run = 0;  // kNotSorted: which one, and which row of its block
  size_t row = 0;  // kOverflow: of the output, the row whose key it is
};

class RowMerger {
 public:
  explicit RowMerger(std::vector<uint64_t> multipliers);  // one for each run

  size_t num_runs() const { return runs_.size(); }

  // Gives a run its next block; its arrays must stay as they are until the run is hungry again. The run must
  // exist, be hungry and not finished (the caller has checked, as it has that offsets ascend).
  void feed(size_t run, const RowView& rows);
  void finish(size_t run) { runs_[run].finished = true; }
  bool finished(size_t run) const { return runs_[run].finished; }

  // Runs without rows that are not finished.
  std::vector<size_t> hungry() const;
  // All runs are finished and all rows were merged.
  bool done() const;

  // Appends merged rows to `out`: up to max_rows or kMaxBytes of keys, fewer if a run is hungry.
  MergeResult merge(size_t max_rows, Rows& out);

 private:
  static constexpr size_t kMaxBytes = 16u << 20;

  static constexpr size_t kWindow = 128;

  // A row, ready to be compared and added; its key is looked up in the block if it is a long one.
  struct Record {
    SortKey key;
    uint64_t count;
    uint64_t documents;
  };
  struct Run {
    RowView rows{};
    size_t num_decoded = 0;  // of rows; the last ones are in the window
    size_t window_next = 0;
    size_t window_size = 0;
    std::array<Record, kWindow> window;
    std::vector<uint8_t> last_key;  // of the block before
    bool any = false;               // whether there was one
    bool finished = false;

    bool empty() const { return window_next == window_size; }
    const Record& next() const { return window[window_next]; }
    size_t row() const { return num_decoded - window_size + window_next; }
    const uint8_t* key(size_t row) const { return rows.data + rows.offsets[row]; }
    size_t key_size(size_t row) const {
      return static_cast<size_t>(rows.offsets[row + 1] - rows.offsets[row]);
    }
  };

  bool decode(Run& run);
  // The next row of a run; a run without one is after all others.
  struct Player {
    SortKey key;
    uint64_t run;
  };

  Player player(uint64_t run) const;
  bool before(const Player& a, const Player& b) const;
  bool same_key(const Player& player, const SortKey& sort_key, const uint8_t* key, size_t size) const;
  void build();
  void replay(uint64_t run);

  std::vector<uint64_t> multipliers_;
  std::vector<Run> runs_;
  std::vector<Player> losers_;  // tournament tree; [0] is the winner
};

}  // namespace tokcore
