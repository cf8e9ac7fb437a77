#include "encode/rank_merges.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "memory/hash.h"

namespace tokcore {
namespace {

class TokenNumbers {
 public:
  explicit TokenNumbers(const RankedTokens& tokens)
      : tokens_(tokens), slots_(std::bit_ceil(2 * tokens.num_tokens + 1), -1) {
    for (size_t i = 0; i < tokens.num_tokens; ++i) {
      const int64_t start = tokens.offsets[i];
      *find(tokens.data + start, static_cast<size_t>(tokens.offsets[i + 1] - start)) =
          static_cast<int32_t>(i);
    }
  }

  // -1 if the bytes are not a token.
  int32_t number(const uint8_t* bytes, size_t size) { return *find(bytes, size); }

 private:
  int32_t* find(const uint8_t* bytes, size_t size) {
    const uint8_t* limit = tokens_.data + tokens_.offsets[tokens_.num_tokens];
    const size_t mask = slots_.size() - 1;
    for (size_t i = hash_bytes(bytes, size, limit);; ++i) {
      int32_t& slot = slots_[i & mask];
      if (slot < 0) return &slot;
      const int64_t start = tokens_.offsets[slot], end = tokens_.offsets[slot + 1];
      if (static_cast<size_t>(end - start) == size && std::memcmp(tokens_.data + start, bytes, size) == 0) {
        return &slot;
      }
    }
  }

  const RankedTokens& tokens_;
  std::vector<int32_t> slots_;
};

}  // namespace

RankMerges rank_merges(const RankedTokens& tokens) {
  TokenNumbers numbers(tokens);
  RankMerges merges;
  for (size_t i = 0; i < tokens.num_tokens; ++i) {
    const uint8_t* token = tokens.data + tokens.offsets[i];
    const size_t size = static_cast<size_t>(tokens.offsets[i + 1] - tokens.offsets[i]);
    for (size_t cut = 1; cut < size; ++cut) {
      const int32_t left = numbers.number(token, cut);
      if (left < 0) continue;
      const int32_t right = numbers.number(token + cut, size - cut);
      if (right < 0) continue;
      merges.left.push_back(left);
      merges.right.push_back(right);
      merges.result.push_back(static_cast<int32_t>(i));
    }
  }
  return merges;
}

RankMerges rank_parts(const RankedTokens& tokens) {
  TokenNumbers numbers(tokens);
  RankMerges merges;
  std::vector<size_t> starts;   // where the parts of a token start, and its end
  std::vector<int32_t> joined;  // the token that part i and the next one make, or `none`
  for (size_t i = 0; i < tokens.num_tokens; ++i) {
    const uint8_t* token = tokens.data + tokens.offsets[i];
    const size_t size = static_cast<size_t>(tokens.offsets[i + 1] - tokens.offsets[i]);
    if (size < 2) continue;
    const int32_t none = static_cast<int32_t>(i);
    const auto join = [&](size_t part) {
      const int32_t number = numbers.number(token + starts[part], starts[part + 2] - starts[part]);
      return number < 0 || number > none ? none : number;
    };
    starts.resize(size + 1);
    for (size_t at = 0; at <= size; ++at) starts[at] = at;
    joined.resize(size - 1);
    for (size_t part = 0; part + 2 <= size; ++part) joined[part] = join(part);
    while (joined.size() > 1) {
      const auto lowest = std::min_element(joined.begin(), joined.end());
      if (*lowest >= none) break;
      const auto part = lowest - joined.begin();
      starts.erase(starts.begin() + part + 1);
      joined.erase(lowest);
      const auto merged = static_cast<size_t>(part);
      if (merged < joined.size()) joined[merged] = join(merged);
      if (merged > 0) joined[merged - 1] = join(merged - 1);
    }
    const bool is_pair = joined.size() == 1;
    merges.left.push_back(is_pair ? numbers.number(token, starts[1]) : -1);
    merges.right.push_back(is_pair ? numbers.number(token + starts[1], size - starts[1]) : -1);
    merges.result.push_back(none);
  }
  return merges;
}

}  // namespace tokcore
