// DESCRIPTION
// RowMerger merges sorted runs of count rows into one and adds up the counts of equal keys, each run's counts
// times its multiplier. Runs are fed in blocks, so memory is one block for each run and one of output.
// Protocol: feed or finish every run of hungry(); merge(); repeat until done(). The result depends on the
// rows alone, not on how they were cut into blocks. Cost: about log2(runs) comparisons of 8 bytes for each
// row. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "rows.h"

namespace tokcore {

enum class MergeStatus : uint8_t {
  kOk,
  kNotSorted,  // a key that is not after the one before it in its run
  kOverflow,   // a sum, or a count times its multiplier, passes 2^64 - 1
};

struct [[nodiscard]] MergeResult {
  MergeStatus status;
  size_t row;  // kNotSorted: of the block; kOverflow: of the output, the row whose key it is
};

class RowMerger {
 public:
  explicit RowMerger(std::vector<uint64_t> multipliers);  // one for each run

  size_t num_runs() const { return runs_.size(); }

  // Copies a block behind what that run was fed before. The run must exist and not be finished (the caller
  // has checked, as it has that offsets ascend).
  MergeResult feed(size_t run, const RowView& rows);
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

  struct Run {
    Rows rows;
    size_t next = 0;
    std::vector<uint8_t> last_key;  // of all that was fed
    bool any = false;               // whether there is a last key
    bool finished = false;
  };
  // The first row of a run. Runs without one are behind all others.
  struct Head {
    uint64_t prefix;  // first 8 bytes, big-endian, zeros behind the end
    const uint8_t* key;
    size_t size;
    bool empty;
  };

  void load_head(size_t run);
  bool before(uint32_t a, uint32_t b) const;
  void build();
  void replay(uint32_t run);
  bool same_key(uint32_t run, const uint8_t* key, size_t size, uint64_t prefix) const;

  std::vector<uint64_t> multipliers_;
  std::vector<Run> runs_;
  std::vector<Head> heads_;
  std::vector<uint32_t> losers_;  // tournament tree; [0] is the winner
};

}  // namespace tokcore
