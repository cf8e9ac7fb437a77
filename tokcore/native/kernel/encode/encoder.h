// DESCRIPTION
// Encoder turns batches of texts into token ids. A scanner, or the caller, cuts each text into pre-tokens; a
// model encodes each pre-token, unless a cache remembers its ids. The ids follow the order of the texts
// and are the same for any number of threads and any size of cache. Linear in the bytes of text for a
// well-formed vocabulary (bpe_model.h), else n log n in the length of a pre-token. Several threads may call
// encode at once; the encoder keeps their caches for later calls.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>

#include "encode/batches.h"
#include "encode/bpe_model.h"
#include "encode/encoding_pool.h"
#include "encode/piece_model.h"
#include "encode/symbol_bpe.h"
#include "scan/scanner.h"
#include "unigram/byte_unigram.h"
#include "wordpiece/wordpiece_model.h"

namespace tokcore {

class Encoder {
 public:
  // cache_bytes: limit of one thread's cache; all caches together hold at most kMaxWorkers times as much.
  // implementation must be one that this processor can run.
  Encoder(std::optional<Scanner> scanner, Implementation implementation, size_t cache_bytes);
  ~Encoder();

  // Call one of them, once, before the first encode.
  VocabularyResult build(const Vocabulary& vocabulary);
  VocabularyResult build(const WordpieceVocabulary& vocabulary);
  VocabularyResult build(const ByteUnigramVocabulary& vocabulary);
  VocabularyResult build(const SymbolVocabulary& vocabulary);

  // All throw std::bad_alloc, and std::system_error if a thread cannot start. threads > 0.
  EncodeResult encode(const TextBatch& texts, size_t threads, EncodedBatch* encoded);
  EncodeResult encode_strings(const StringBatch& texts, size_t threads, EncodedBatch* encoded);
  // The ids of one string, lent to take.
  EncodeResult encode_string(const StringView& string, const TakeIds& take);
  EncodeResult encode_pieces(const TextBatch& texts, const Pieces& pieces, size_t threads,
                             EncodedBatch* encoded);

 private:
  class Worker;

  std::optional<Scanner> scanner_;
  Implementation implementation_;
  std::unique_ptr<const PieceModel> model_;
  EncodingPool<Worker> workers_;
};

}  // namespace tokcore
