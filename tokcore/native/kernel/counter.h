// DESCRIPTION
// Counter counts the pre-tokens of documents: how often each occurs, and in how many documents.
// A pre-token of more than max_pretoken_bytes is cut into parts, each as long as it can be without passing
// that limit or dividing a well-formed UTF-8 character; each part counts as a pre-token of its own (0: never
// cut). Cost: a scan and one probe of a hash table for each occurrence; memory is 51 to 102 bytes for each
// distinct pre-token, plus its bytes if it has more than 15; take() needs up to 70 more. Counts are 64-bit
// and cannot overflow: it would take more bytes than can be addressed. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "rows.h"
#include "scanner.h"
#include "zeroed_memory.h"

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

  // All rows, sorted by the bytes of their keys; the table is empty afterwards and holds no memory.
  Rows take();

  size_t memory_bytes() const;
  size_t num_rows() const { return num_rows_; }
  uint64_t num_pretokens() const { return num_pretokens_; }

 private:
  struct Slot;
  struct Span;
  struct LongSpan;
  struct Pending;
  class Arena;

  void add_spans(const uint8_t* text, size_t begin, const uint64_t* ends, size_t num_ends);
  void add_long(const uint8_t* bytes, size_t size);
  void add_part(const uint8_t* bytes, size_t size);
  void flush();
  Slot* slot_beyond(const Span& span);
  void flush_long();
  void make_room();
  Slot* slots() const;
  Slot* line_of(uint64_t hash) const;

  Scanner scanner_;
  size_t max_pretoken_bytes_;
  size_t max_short_;                  // longer ones are not for a slot, or may have to be cut
  std::vector<uint64_t> ends_;        // one batch of the scanner
  std::unique_ptr<Pending> pending_;  // one batch of probes
  size_t num_lines_;                  // a power of two
  ZeroedMemory table_;                // lines of two slots
  std::unique_ptr<Arena> arena_;      // keys that do not fit a slot
  size_t num_rows_ = 0;
  size_t key_bytes_ = 0;
  uint64_t num_pretokens_ = 0;
  uint32_t document_ = 0;           // ordinal of the current document, from 1
  const uint8_t* limit_ = nullptr;  // end of the data being read
};

}  // namespace tokcore
