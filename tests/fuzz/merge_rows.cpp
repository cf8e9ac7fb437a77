// Runs of count rows in blocks: some out of order, with counts and multipliers up to the largest number.
#include <map>
#include <optional>

#include "count/row_merger.h"
#include "input.h"

namespace {

using namespace tokcore;
using namespace tokcore::fuzz;

struct Run {
  std::vector<std::string> keys;
  std::vector<uint64_t> counts, documents;
};

// A block in memory of just its size.
struct Block {
  std::unique_ptr<uint8_t[]> data;
  std::vector<int64_t> offsets;

  Block(const Run& run, size_t begin, size_t end) {
    std::string bytes = "_";  // a block need not begin at 0
    offsets.push_back(1);
    for (size_t i = begin; i < end; ++i) {
      bytes += run.keys[i];
      offsets.push_back(static_cast<int64_t>(bytes.size()));
    }
    offsets.shrink_to_fit();
    data = exact(bytes);
  }
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Input input(data, size);
  const size_t block_rows = 1 + input.below(160), max_rows = 1 + input.below(300);
  const bool in_order = input.byte() % 4 != 0;
  std::vector<Run> runs(input.below(6));
  std::vector<uint64_t> multipliers;
  std::map<std::string, std::pair<unsigned __int128, unsigned __int128>> expected;
  bool sorted = true, overflow = false;
  for (Run& run : runs) {
    multipliers.push_back(input.number());
    std::map<std::string, std::pair<uint64_t, uint64_t>> rows;
    for (size_t n = input.below(120); n > 0 && input.left() > 0; --n) {
      const uint8_t shape = input.byte();
      std::string key(shape % 4 == 0 ? 0 : shape % 4 * 7, 'k');  // long ones have beginnings in common
      key += input.take(shape / 4 % 8);
      const uint64_t count = input.number(), documents = input.number();
      if (in_order) {
        rows[key] = {count, documents};
      } else {
        run.keys.push_back(key);
        run.counts.push_back(count);
        run.documents.push_back(documents);
      }
    }
    for (const auto& [key, row] : rows) {
      run.keys.push_back(key);
      run.counts.push_back(row.first);
      run.documents.push_back(row.second);
    }
    for (size_t i = 0; i < run.keys.size(); ++i) {
      sorted = sorted && (i == 0 || run.keys[i - 1] < run.keys[i]);
      const auto product = static_cast<unsigned __int128>(run.counts[i]) * multipliers.back();
      auto& sum = expected[run.keys[i]];
      sum.first += product;
      sum.second += run.documents[i];
      overflow = overflow || product > UINT64_MAX || sum.first > UINT64_MAX || sum.second > UINT64_MAX;
    }
  }

  RowMerger merger(multipliers);
  std::vector<size_t> next(runs.size(), 0);
  std::vector<std::optional<Block>> blocks(runs.size());
  Rows out;
  while (!merger.done()) {
    for (const size_t number : merger.hungry()) {
      const Run& run = runs[number];
      const size_t begin = next[number], end = std::min(run.keys.size(), begin + block_rows);
      if (begin == end) {
        merger.finish(number);
        continue;
      }
      blocks[number].emplace(run, begin, end);
      merger.feed(number, {blocks[number]->data.get(), blocks[number]->offsets.data(),
                           run.counts.data() + begin, run.documents.data() + begin, end - begin});
      next[number] = end;
    }
    const size_t before = out.size();
    const MergeResult result = merger.merge(before + max_rows, out);
    expect(out.size() - before <= max_rows + (result.status == MergeStatus::kOverflow), "room is kept");
    if (result.status == MergeStatus::kOk) continue;
    expect(!(sorted && !overflow), "sound rows are merged");
    if (result.status == MergeStatus::kNotSorted) {
      expect(!sorted && result.run < runs.size(), "what is said to be out of order is");
      expect(result.row + 1 < blocks[result.run]->offsets.size(), "the row is one of its block");
    } else {
      expect(
          result.row < out.offsets.size() && out.offsets[result.row] <= static_cast<int64_t>(out.data.size()),
          "the row whose sum is too large is the last");
    }
    return 0;
  }
  expect(sorted && !overflow, "rows out of order and sums that are too large are found");
  expect(out.size() == expected.size(), "as many rows");
  size_t row = 0;
  for (const auto& [key, sum] : expected) {
    const auto* begin = reinterpret_cast<const char*>(out.data.data());
    expect(std::string(begin + out.offsets[row], begin + out.offsets[row + 1]) == key &&
               out.counts[row] == sum.first && out.documents[row] == sum.second,
           "rows are the sums");
    ++row;
  }
  return 0;
}
