// DESCRIPTION
// Counter counts the pre-tokens of documents: how often each occurs, and in how many documents. A pre-token
// of more than max_pretoken_bytes is cut into parts, each as long as it can be without passing that limit or
// dividing a well-formed UTF-8 character. Each part counts as a pre-token of its own. 0: never cut.
//
// Cost: a scan, and one probe of a hash table per occurrence. Memory: 39 to 56 bytes per distinct pre-token,
// up to 140 below 100,000 of them; 4 MB after a first megabyte of text; for a pre-token of more than 15 bytes
// also its bytes and 8 to 16 more. While the table grows it takes up to a quarter more. take() needs 40 bytes
// a row and the bytes of all keys. Counts have 64 bits and cannot overflow: no machine has 2^64
// bytes of text. Not thread-safe.
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
  kTooManyDocuments,  // 2^32 - 1 documents since the last take()
};

class Counter {
 public:
  // max_pretoken_bytes: 0, or at least 4, so that every character fits.
  Counter(Scanner scanner, size_t max_pretoken_bytes);
  ~Counter();
  Counter(const Counter&) = delete;
  Counter& operator=(const Counter&) = delete;

  // Document i is data[offsets[i] .. offsets[i + 1]). The caller has checked that offsets ascend within
  // [0, data_size]. After an error nothing was counted.
  [[nodiscard]] CounterStatus add(const uint8_t* data, size_t data_size, const int64_t* offsets,
                                  size_t num_documents);

  // The same for documents that are already split: ends[firsts[i] .. firsts[i + 1]) are the ends of the
  // pieces of document i, absolute in data. The caller has checked that `firsts` ascends and stays within the
  // ends.
  [[nodiscard]] CounterStatus add_pieces(const uint8_t* data, size_t data_size, const int64_t* offsets,
                                         size_t num_documents, const int64_t* ends, const int64_t* firsts);

  // All rows, sorted by the bytes of their keys. Afterwards the counter is empty and holds no memory. If
  // memory is short, throws std::bad_alloc and leaves the counter as it was.
  Rows take();

  // The same for several counters, each of a part of the documents: adds up the counts and documents of equal
  // keys. The elements of the result are in order, each with the rows after those of the one before it. The
  // number of threads only changes where elements begin and end.
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
  size_t max_short_;                  // longer keys do not fit a row, or may have to be cut
  std::vector<uint64_t> ends_;        // one batch of the scanner
  std::unique_ptr<Pending> pending_;  // one batch of probes
  // The rows, from 1 on, in the order of their first occurrence, which puts frequent ones close together.
  ZeroedMemory rows_;
  size_t max_rows_;  // for which rows_ has room
  size_t num_rows_ = 0;
  std::unique_ptr<Index> index_;
  std::unique_ptr<Arena> arena_;  // keys that do not fit a row
  size_t key_bytes_ = 0;
  uint64_t num_pretokens_ = 0;
  uint32_t document_ = 0;           // ordinal of the current document, from 1
  const uint8_t* limit_ = nullptr;  // end of the data being read
};

}  // namespace tokcore
