// DESCRIPTION
// Counter counts the pre-tokens of documents: how often each occurs, and in how many documents.
// A pre-token of more than max_pretoken_bytes is cut into parts, each as long as it can be without passing
// that limit or dividing a well-formed UTF-8 character; each part counts as a pre-token of its own (0: never
// cut). Cost: a scan and one probe of a hash table for each occurrence; memory is 39 to 56 bytes for each
// distinct pre-token, up to 140 where there are fewer than 100,000 and 4 MB from a first megabyte of text on,
// plus its bytes and 8 to 16 if it has more than 15; the moment of growing takes up to a quarter more. take()
// needs 40 bytes a row and the bytes of all keys. Counts are 64-bit and cannot overflow: it would take more
// bytes than can be addressed. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "count/rows.h"
#include "memory/zeroed_memory.h"
#include "scan/scanner.h"

namespace tokcore {

enum class CounterStatus : uint8_t {
  kOk,
  kBadOffsets,        // the ends of a document's pieces do not ascend from its start to its end
  kTooManyDocuments,  // 2^32 - 1 documents since the last take
};

class Counter {
 public:
  // max_pretoken_bytes: 0, or at least 4, so that every character fits.
  Counter(Scanner scanner, size_t max_pretoken_bytes);
  ~Counter();
  Counter(const Counter&) = delete;
  Counter& operator=(const Counter&) = delete;

  // Document i is data[offsets[i] .. offsets[i + 1]); data ends at `data_size`. Offsets ascend from 0 or more
  // to at most data_size (the caller has checked). On an error, nothing was counted.
  [[nodiscard]] CounterStatus add(const uint8_t* data, size_t data_size, const int64_t* offsets,
                                  size_t num_documents);

  // The same for documents that are already split: ends[firsts[i] .. firsts[i + 1]) are the ends of the
  // pieces of document i, absolute in data. `firsts` ascends and stays within the ends (the caller has
  // checked).
  [[nodiscard]] CounterStatus add_pieces(const uint8_t* data, size_t data_size, const int64_t* offsets,
                                         size_t num_documents, const int64_t* ends, const int64_t* firsts);

  // All rows, sorted by the bytes of their keys; the counter is empty afterwards and holds no memory. Where
  // memory is short (std::bad_alloc), it is as it was.
  Rows take();

  // The same for several counters, each of a part of the documents: counts and documents of equal keys are
  // added up. The rows of each element of the result are after those of the one before it. `num_threads`
  // threads do the work; they change nothing but where elements begin and end.
  static std::vector<Rows> take_all(const std::vector<Counter*>& counters, size_t num_threads);

  size_t memory_bytes() const;
  size_t num_rows() const { return num_rows_; }
  uint64_t num_pretokens() const { return num_pretokens_; }

 private:
  struct Row;
  struct Span;
  struct LongSpan;
  struct Pending;
  class Arena;
  class Index;
  class Taking;
  struct Empty;

  void add_spans(const uint8_t* text, size_t begin, const uint64_t* ends, size_t num_ends);
  void add_long(const uint8_t* bytes, size_t size);
  void add_part(const uint8_t* bytes, size_t size);
  void flush();
  Row* row_beyond(const Span& span);
  void flush_long();
  void begin(size_t text_size);
  void make_room();
  void clear(Empty&& empty);
  Row* rows() const;

  Scanner scanner_;
  size_t max_pretoken_bytes_;
  size_t max_short_;                  // longer ones are not for a row, or may have to be cut
  std::vector<uint64_t> ends_;        // one batch of the scanner
  std::unique_ptr<Pending> pending_;  // one batch of probes
  // The rows, from 1 on, in the order of their first occurrence: so frequent ones are close to each other.
  ZeroedMemory rows_;
  size_t max_rows_;  // that they have memory for
  size_t num_rows_ = 0;
  std::unique_ptr<Index> index_;
  std::unique_ptr<Arena> arena_;  // keys that do not fit a row
  size_t key_bytes_ = 0;
  uint64_t num_pretokens_ = 0;
  uint32_t document_ = 0;           // ordinal of the current document, from 1
  const uint8_t* limit_ = nullptr;  // end of the data being read
};

}  // namespace tokcore
