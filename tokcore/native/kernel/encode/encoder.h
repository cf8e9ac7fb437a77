// DESCRIPTION
// Encoder turns batches of texts into token ids: each text is cut into pre-tokens (by a scanner, or as the
// caller says), and each pre-token is encoded by a BpeModel, or remembered from before. Ids come out in the
// order of the texts, the same for any number of threads and any size of cache. Linear in the bytes of text
// for a well-formed vocabulary (bpe_model.h), else n log n in a single pre-token. encode may be called from
// several threads at once; their caches stay for later calls.
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
#include "scan/scanner.h"
#include "text/utf8_writer.h"

namespace tokcore {

struct TextBatch {
  const uint8_t* data;
  size_t data_size;
  const int64_t* offsets;  // num_texts + 1, ascending, within data
  size_t num_texts;
};

// Strings as an interpreter keeps them, each in memory of its own.
struct StringBatch {
  const StringView* strings;
  size_t num_texts;
};

// Texts cut by somebody else: ends, absolute in data, of all pre-tokens; those of text i begin at firsts[i].
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
  kBadOffsets,    // offsets do not ascend, or leave the data (position: text)
  kBadPieces,     // pieces are empty, or do not cover their text exactly (text)
  kPieceTooLong,  // a pre-token is longer than BpeModel::kMaxPieceBytes (text)
  kNoScanner,     // there is nothing to cut the texts with
  kSurrogate,     // a string has a surrogate, so it is not text (text)
};

struct [[nodiscard]] EncodeResult {
  EncodeStatus status;
  uint64_t position;
};

class Encoder {
 public:
  // cache_bytes: what the cache of one thread may hold; those of all together hold at most kMaxCaches times
  // as much.
  // implementation must be one that this processor can run.
  Encoder(std::optional<Scanner> scanner, Implementation implementation, size_t cache_bytes);
  ~Encoder();

  static constexpr size_t kMaxCaches = 8;

  // Once, before the first encode.
  VocabularyResult build(const Vocabulary& vocabulary) { return model_.build(vocabulary); }

  // All throw std::bad_alloc, and std::system_error if a thread cannot be started. threads > 0.
  EncodeResult encode(const TextBatch& texts, size_t threads, EncodedBatch* encoded);
  EncodeResult encode_strings(const StringBatch& texts, size_t threads, EncodedBatch* encoded);
  EncodeResult encode_pieces(const TextBatch& texts, const Pieces& pieces, size_t threads,
                             EncodedBatch* encoded);

 private:
  class Worker;

  // A worker for as long as one thread needs it; it stays with the encoder.
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
  // Deals texts to threads by their offsets, ascending and one more than there are texts (for strings,
  // about). encode_range(worker, first, last, ids, starts, pretokens) does what Worker::encode does.
  template <typename EncodeRange>
  EncodeResult run(const int64_t* offsets, size_t num_texts, size_t threads, EncodedBatch* encoded,
                   const EncodeRange& encode_range);

  void note_rate(size_t bytes, size_t num_ids);

  static constexpr size_t kMinRatedBytes = size_t{1} << 16;  // less says little of what comes next

  std::optional<Scanner> scanner_;
  BpeModel model_;
  size_t cache_bytes_;
  std::atomic<uint32_t> ids_per_kilobyte_ = 512;  // of late, and an eighth more; at first more than is usual
  std::mutex mutex_;                              // guards what follows
  std::vector<std::unique_ptr<Worker>> idle_;
  size_t num_leased_ = 0;
  size_t most_workers_ = 0;
};

}  // namespace tokcore
