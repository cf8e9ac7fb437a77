// DESCRIPTION
// Encoder turns batches of texts into token ids. A scanner, or the caller, cuts each text into pre-tokens; a
// model encodes each pre-token, unless a cache remembers its ids. The ids follow the order of the texts
// and are the same for any number of threads and any size of cache. Linear in the bytes of text for a
// well-formed vocabulary (bpe_model.h), else n log n in the length of a pre-token. Several threads may call
// encode at once; the encoder keeps their caches for later calls.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "encode/bpe_model.h"
#include "encode/id_buffer.h"
#include "encode/piece_model.h"
#include "encode/wordpiece_model.h"
#include "scan/scanner.h"
#include "text/utf8_writer.h"

namespace tokcore {

struct TextBatch {
  const uint8_t* data;
  size_t data_size;
  const int64_t* offsets;  // num_texts + 1, ascending, within data
  size_t num_texts;
};

// Strings as Python keeps them, each in its own memory.
struct StringBatch {
  const StringView* strings;
  size_t num_texts;
};

// Texts that the caller has cut: ends, absolute in data, of all pre-tokens; those of text i begin at
// firsts[i].
struct Pieces {
  const int64_t* ends;
  size_t num_ends;
  const int64_t* firsts;  // num_texts + 1
};

struct EncodedBatch {
  IdBuffer ids;
  std::vector<int64_t> offsets;    // num_texts + 1
  std::vector<int64_t> pretokens;  // num_texts
};

enum class EncodeStatus : uint8_t {
  kOk,
  kBadOffsets,    // offsets do not ascend, or leave the data (position: the text)
  kBadPieces,     // a piece is empty, or the pieces do not cover their text exactly (text)
  kPieceTooLong,  // a pre-token is longer than PieceModel::kMaxPieceBytes (text)
  kNoScanner,     // the encoder has no scanner to cut the texts with
  kSurrogate,     // a string has a surrogate, so it is not text (text)
};

struct [[nodiscard]] EncodeResult {
  EncodeStatus status;
  uint64_t position;
};

class Encoder {
 public:
  // cache_bytes: limit of one thread's cache; all caches together hold at most kMaxCaches times as much.
  // implementation must be one that this processor can run.
  Encoder(std::optional<Scanner> scanner, Implementation implementation, size_t cache_bytes);
  ~Encoder();

  static constexpr size_t kMaxCaches = 8;

  // Call one of them, once, before the first encode.
  VocabularyResult build(const Vocabulary& vocabulary);
  VocabularyResult build(const WordpieceVocabulary& vocabulary);

  // All throw std::bad_alloc, and std::system_error if a thread cannot start. threads > 0.
  EncodeResult encode(const TextBatch& texts, size_t threads, EncodedBatch* encoded);
  EncodeResult encode_strings(const StringBatch& texts, size_t threads, EncodedBatch* encoded);
  EncodeResult encode_pieces(const TextBatch& texts, const Pieces& pieces, size_t threads,
                             EncodedBatch* encoded);

 private:
  class Worker;

  // Lends a worker to one thread; afterwards the encoder keeps it for the next.
  struct WorkerLease {
    explicit WorkerLease(Encoder& encoder);
    ~WorkerLease();
    WorkerLease(const WorkerLease&) = delete;
    WorkerLease& operator=(const WorkerLease&) = delete;

    std::unique_ptr<Worker> worker;

   private:
    Encoder& encoder_;
  };

  EncodeResult run(const TextBatch& texts, const Pieces* pieces, size_t threads, EncodedBatch* encoded);
  // Deals texts to threads by size. offsets: num_texts + 1, ascending; for strings, estimates are enough.
  // encode_range(worker, first, last, ids, starts, pretokens) does what Worker::encode does.
  template <typename EncodeRange>
  EncodeResult run(const int64_t* offsets, size_t num_texts, size_t threads, EncodedBatch* encoded,
                   const EncodeRange& encode_range);

  void note_rate(size_t bytes, size_t num_ids);

  static constexpr size_t kMinRatedBytes = size_t{1} << 16;  // a smaller batch says little about the next one

  std::optional<Scanner> scanner_;
  Implementation implementation_;
  std::unique_ptr<const PieceModel> model_;
  size_t cache_bytes_;
  std::atomic<uint32_t> ids_per_kilobyte_ = 512;  // rate of the last batch and an eighth more; high at first
  std::mutex mutex_;                              // guards the members below
  std::vector<std::unique_ptr<Worker>> idle_;
  size_t num_leased_ = 0;
  size_t most_workers_ = 0;
};

}  // namespace tokcore
