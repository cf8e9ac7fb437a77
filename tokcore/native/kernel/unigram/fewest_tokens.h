// DESCRIPTION
// drop_least_needed() makes a vocabulary smaller for an encoder that takes the fewest tokens: PathPiece
// (Schmidt et al. 2024, "Tokenization Is More Than Compression"). The loss of a token is how many more tokens
// the words then need: the sum over all words of the word's count times (the fewest tokens of the word
// without it - the fewest with it). Each round drops the quarter of the tokens, rounded down but at least
// one, that have the lowest loss, of equal losses those of the higher places; the last round as many as are
// too many. A token of one byte is never dropped. The result depends only on the sum of counts of each word:
// not on order, repetitions or threads.
//
// Cost of a round: for each word, a step for each byte of the tokens that begin at each of its bytes; then,
// for each token of its cut, the tokens that lie across it, or all of the word's if it holds the token twice.
// Memory: 8 bytes a token and thread, 32 a token. Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tokcore {

// Byte string i is data[offsets[i] .. offsets[i + 1]).
struct ByteStrings {
  const uint8_t* data;
  const int64_t* offsets;
  size_t num;
};

struct FewestTokensOptions {
  size_t num_kept = 0;  // tokens of one byte included, which stay even if they are more
  size_t threads = 1;   // at least 1
};

enum class FewestTokensStatus : uint8_t {
  kOk,
  kMissingByte,  // one of the 256 bytes is no token
  kEmptyToken,
  kDuplicateToken,
  kTooMany,        // ScoreTrie does not hold them
  kCountOverflow,  // the bytes of all words, times the words' counts, are more than 2^63 - 1
};

struct KeptTokens {
  FewestTokensStatus status = FewestTokensStatus::kOk;
  std::vector<int32_t> places;  // of the tokens that are kept, ascending
};

// Word i occurs counts[i] times. There are at most 2^31 - 1 tokens.
KeptTokens drop_least_needed(const ByteStrings& words, const uint64_t* counts, const ByteStrings& tokens,
                             const FewestTokensOptions& options);

}  // namespace tokcore
