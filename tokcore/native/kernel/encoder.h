// DESCRIPTION
// Encoder turns batches of texts into token ids: each text is cut into pre-tokens (by a scanner, or as the
// caller says), and each pre-token is encoded by a BpeModel, or remembered from before. Ids come out in the
// order of the texts, the same for any number of threads and any size of cache. Linear in the bytes of text
// for a well-formed vocabulary (bpe_model.h), else n log n in a single pre-token. encode may be called from
// several threads at once; their caches stay for later calls.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <utility>
#include <vector>

#include "bpe_model.h"
#include "large_pages.h"
#include "scanner.h"
#include "zeroed_memory.h"

namespace tokcore {

// Growing array of ids, as malloc made it, so that it can be handed on without a copy.
class IdBuffer {
 public:
  IdBuffer() = default;
  IdBuffer(IdBuffer&& other) noexcept { swap(other); }
  IdBuffer& operator=(IdBuffer&& other) noexcept {
    swap(other);
    return *this;
  }
  IdBuffer(const IdBuffer&) = delete;
  IdBuffer& operator=(const IdBuffer&) = delete;
  ~IdBuffer() { std::free(data_); }

  // Makes room for `more` ids after the first size().
  void reserve_more(size_t more) {
    if (capacity_ - size_ < more) set_capacity(std::max(size_ + more, capacity_ + capacity_ / 2));
  }
  void set_capacity(size_t capacity) {
    const size_t size_bytes = std::max<size_t>(capacity, 1) * sizeof(int32_t);
    void* moved = data_ == nullptr ? allocate_in_large_pages(size_bytes) : std::realloc(data_, size_bytes);
    if (moved == nullptr) throw std::bad_alloc();
    data_ = static_cast<int32_t*>(moved);
    capacity_ = capacity;
  }
  int32_t* end() const { return data_ + size_; }
  void set_end(const int32_t* end) { size_ = static_cast<size_t>(end - data_); }
  int32_t* data() const { return data_; }
  size_t size() const { return size_; }
  size_t capacity() const { return capacity_; }
  int32_t* release() { return std::exchange(data_, nullptr); }

 private:
  void swap(IdBuffer& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    std::swap(capacity_, other.capacity_);
  }

  int32_t* data_ = nullptr;
  size_t size_ = 0;
  size_t capacity_ = 0;
};

struct TextBatch {
  const uint8_t* data;
  size_t data_size;
  const int64_t* offsets;  // num_texts + 1, ascending, within data
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
};

struct [[nodiscard]] EncodeResult {
  EncodeStatus status;
  uint64_t position;
};

class Encoder {
 public:
  // cache_bytes: what the caches of all threads together may hold.
  // implementation must be one that this processor can run.
  Encoder(std::optional<Scanner> scanner, Implementation implementation, size_t cache_bytes);
  ~Encoder();

  // Once, before the first encode.
  VocabularyResult build(const Vocabulary& vocabulary) { return model_.build(vocabulary); }

  // Both throw std::bad_alloc, and std::system_error if a thread cannot be started. threads > 0.
  EncodeResult encode(const TextBatch& texts, size_t threads, EncodedBatch* encoded);
  EncodeResult encode_pieces(const TextBatch& texts, const Pieces& pieces, size_t threads,
                             EncodedBatch* encoded);

 private:
  class Worker;
  struct Range;

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

  std::optional<Scanner> scanner_;
  BpeModel model_;
  size_t cache_bytes_;
  std::mutex mutex_;  // guards what follows
  std::vector<std::unique_ptr<Worker>> idle_;
  size_t num_leased_ = 0;
  size_t most_workers_ = 0;
};

}  // namespace tokcore
