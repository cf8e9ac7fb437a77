// DESCRIPTION
// A vocabulary in the order of ranks (tiktoken's way to write BPE: two neighbours merge if their joined bytes
// are a token, the lowest rank first), seen as merges. A token's number is its place in the vocabulary.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tokcore {

// Tokens, all different and none of them empty: token i is data[offsets[i], offsets[i + 1]).
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

// Every way to make a token of two tokens: by the token it makes, then by the length of its left part.
// O(bytes of all tokens) look-ups.
RankMerges rank_merges(const RankedTokens& tokens);

// Of each token of more than one byte, the two tokens that its own bytes come down to, merging lower ranks
// only; -1, -1 where they come down to more than two. O(length^2) for one token.
RankMerges rank_parts(const RankedTokens& tokens);

}  // namespace tokcore
