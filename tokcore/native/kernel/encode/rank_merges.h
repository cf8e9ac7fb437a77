// DESCRIPTION
// Turns a vocabulary in the order of ranks into merges. This is how tiktoken writes BPE: two neighbours merge
// if their joined bytes are a token, the lowest rank first. A token's number is its place in the vocabulary.
// Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tokcore {

// Different tokens, none of them empty: token i is data[offsets[i], offsets[i + 1]).
struct RankedTokens {
  const uint8_t* data;
  const int64_t* offsets;  // num_tokens + 1, ascending
  size_t num_tokens;
};

struct RankMerges {
  std::vector<int32_t> left;
  std::vector<int32_t> right;
  std::vector<int32_t> result;
};

// Every way to make a token of two tokens, sorted by that token, then by the length of the left part. O(bytes
// of all tokens) look-ups.
RankMerges rank_merges(const RankedTokens& tokens);

// For each token of more than one byte, the two tokens that merging its bytes by lower ranks alone ends with;
// -1, -1 if it ends with more than two. O(length^2) for each token.
RankMerges rank_parts(const RankedTokens& tokens);

}  // namespace tokcore
