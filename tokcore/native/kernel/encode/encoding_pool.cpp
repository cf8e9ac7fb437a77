#include "encode/encoding_pool.h"

namespace tokcore {

std::vector<size_t> find_ranges(const int64_t* offsets, size_t num_texts, size_t threads) {
  constexpr size_t kRangesPerThread = 8, kMinRangeBytes = size_t{1} << 16, kMaxRangeBytes = size_t{1} << 19;
  const int64_t begin = offsets[0];
  const auto total = static_cast<size_t>(offsets[num_texts] - begin);
  std::vector<size_t> firsts = {0};
  if (threads > 1) {
    const size_t wanted = std::max(threads * kRangesPerThread, total / kMaxRangeBytes);
    const size_t num_ranges = std::clamp<size_t>(total / kMinRangeBytes, 1, wanted);
    for (size_t i = 1; i < num_ranges; ++i) {
      const int64_t limit = begin + static_cast<int64_t>(total / num_ranges * i);
      const auto* end = std::upper_bound(offsets + firsts.back(), offsets + num_texts, limit);
      const auto first = static_cast<size_t>(end - offsets);
      if (first > firsts.back() && first < num_texts) firsts.push_back(first);
    }
  }
  firsts.push_back(num_texts);
  return firsts;
}

}  // namespace tokcore
