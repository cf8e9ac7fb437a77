// DESCRIPTION
// predict_documents gives the bits that a language model of token n-grams needs for documents, having seen
// others: interpolated modified Kneser-Ney (Chen and Goodman 1998). docs/reference/prediction.md has the
// definition, tokcore.reference.reference_ngram the same in plain Python. Counts are exact. The bits of a
// document are added up in the order of its tokens, with a logarithm of our own: the same result on every
// machine. Time: one look-up in a hash table for each token and order. Memory: 60 to 100 bytes for each
// token. Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tokcore {

inline constexpr size_t kMaxNgramOrder = 16;

// Document i is ids[offsets[i] .. offsets[i + 1]). The caller has checked that offsets ascend within ids,
// that ids are less than num_tokens, and that ids and documents together are fewer than 2^31.
struct NgramDocuments {
  const int32_t* ids;
  const int64_t* offsets;
  size_t num_documents;
  size_t num_learned;  // of the documents: the first ones, which are counted; the others are predicted
};

struct NgramOptions {
  size_t num_tokens;       // of the vocabulary
  const int32_t* lengths;  // bytes of each, at least 0
  size_t order;            // 1 to kMaxNgramOrder: a token is predicted from order - 1 before it at most
  uint64_t context_bytes;  // which have no more bytes than these together
};

// Of each document that is predicted.
struct NgramPrediction {
  std::vector<double> bits;
  std::vector<uint64_t> context_bytes;  // of the tokens from which its tokens were predicted, added up
};

NgramPrediction predict_documents(const NgramDocuments& documents, const NgramOptions& options);

}  // namespace tokcore
