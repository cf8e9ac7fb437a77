// DESCRIPTION
// RowMerger merges sorted runs of count rows into one. It adds up the counts of equal keys, each run's counts
// times its multiplier. Runs are fed in blocks, which the caller owns. Protocol: feed or finish every run of
// hungry(); merge(); repeat until done(). The result depends only on the rows, not on how they were cut into
// blocks. Cost: about log2(runs) comparisons of 8 bytes for each row. Not thread-safe.
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
  kNotSorted,  // a key does not come after the one before it in its run
  kOverflow,   // a sum, or a count times its multiplier, passes 2^64 - 1
};

struct [[nodiscard]] MergeResult {
  MergeStatus status = MergeStatus::kOk;
  size_t run = 0;  // kNotSorted: the run, and the row of its block
  size_t row = 0;  // kOverflow: the row of the output that has the key
};

class RowMerger {
 public:
  explicit RowMerger(std::vector<uint64_t> multipliers);  // one for each run

  size_t num_runs() const { return runs_.size(); }

  // Gives a run its next block, whose arrays must not change until the run is hungry again. The caller has
  // checked that the run exists, is hungry and not finished, and that offsets ascend.
  void feed(size_t run, const RowView& rows);
  void finish(size_t run) { runs_[run].finished = true; }
  bool finished(size_t run) const { return runs_[run].finished; }

  // Unfinished runs that have no rows left.
  std::vector<size_t> hungry() const;
  // Whether all runs are finished and all rows merged.
  bool done() const;

  // Appends merged rows to `out`: up to max_rows rows or kMaxBytes of keys; fewer if a run is hungry.
  MergeResult merge(size_t max_rows, Rows& out);

 private:
  static constexpr size_t kMaxBytes = 16u << 20;

  static constexpr size_t kWindow = 128;

  // A row, ready to be compared and added. A long key is read from the block.
  struct Record {
    SortKey key;
    uint64_t count;
    uint64_t documents;
  };
  struct Run {
    RowView rows{};
    size_t num_decoded = 0;  // rows decoded; the last of them are in the window
    size_t window_next = 0;
    size_t window_size = 0;
    std::array<Record, kWindow> window;
    std::vector<uint8_t> last_key;  // the last key of the block before
    bool any = false;               // whether there was a block before
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
  // The next row of a run; a run without one comes after all others.
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
