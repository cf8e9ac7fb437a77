#include "count/counter.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <new>
#include <utility>

#include "count/counter_table.h"
#include "count/sort_key.h"
#include "scan/character.h"

namespace tokcore {

namespace {

constexpr size_t kScanBatch = 1024;
constexpr size_t kProbeBatch = 128;
constexpr size_t kLongBatch = 16;
constexpr size_t kInlineBytes = SortKey::kBytes;
constexpr size_t kAhead = 32;  // rows are prefetched this many probes before they are read
// If the first text is large, the index begins at this size, with large pages: it would soon need them.
constexpr int kLargeIndexBits = 19;
constexpr size_t kLargeText = size_t{1} << 20;

}  // namespace

struct Counter::Span {
  Block16 key;
  uint64_t document_and_hash;  // 32 bits each
  Row* row;

  uint32_t hash() const { return static_cast<uint32_t>(document_and_hash); }
  uint32_t document() const { return static_cast<uint32_t>(document_and_hash >> 32); }
};

struct Counter::LongSpan {
  const uint8_t* bytes;
  size_t size;
  uint64_t hash;
  uint32_t document;
};

struct Counter::Pending {
  std::array<Span, kProbeBatch + kAhead> spans{};  // the last kAhead may be looked up, but count nothing
  std::array<LongSpan, kLongBatch> long_spans;
  size_t size = 0;
  size_t num_long = 0;
};

Counter::Counter(Scanner scanner, size_t max_pretoken_bytes)
    : scanner_(scanner),
      max_pretoken_bytes_(max_pretoken_bytes == 0 ? std::numeric_limits<size_t>::max() : max_pretoken_bytes),
      max_short_(std::min(max_pretoken_bytes_, kInlineBytes)),
      ends_(kScanBatch),
      pending_(std::make_unique<Pending>()) {
  clear(Empty());
}

Counter::~Counter() = default;

CounterStatus Counter::add(const uint8_t* data, size_t data_size, const int64_t* offsets,
                           size_t num_documents) {
  if (num_documents >= std::numeric_limits<uint32_t>::max() - document_) {
    return CounterStatus::kTooManyDocuments;
  }
  limit_ = data + data_size;
  begin(static_cast<size_t>(offsets[num_documents] - offsets[0]));
  for (size_t i = 0; i < num_documents; ++i) {
    ++document_;
    const uint8_t* const text = data + offsets[i];
    const auto size = static_cast<size_t>(offsets[i + 1] - offsets[i]);
    size_t begin = 0;
    while (begin < size) {
      const size_t scanned = scanner_.scan(text, size, begin, ends_.data(), kScanBatch);
      add_spans(text, begin, ends_.data(), scanned);
      begin = ends_[scanned - 1];
    }
  }
  flush_long();
  return CounterStatus::kOk;
}

CounterStatus Counter::add_pieces(const uint8_t* data, size_t data_size, const int64_t* offsets,
                                  size_t num_documents, const int64_t* ends, const int64_t* firsts) {
  if (num_documents >= std::numeric_limits<uint32_t>::max() - document_) {
    return CounterStatus::kTooManyDocuments;
  }
  for (size_t i = 0; i < num_documents; ++i) {
    int64_t begin = offsets[i];
    for (int64_t j = firsts[i]; j < firsts[i + 1]; begin = ends[j++]) {
      if (ends[j] <= begin) return CounterStatus::kBadOffsets;
    }
    if (begin != offsets[i + 1]) return CounterStatus::kBadOffsets;
  }
  limit_ = data + data_size;
  begin(static_cast<size_t>(offsets[num_documents] - offsets[0]));
  for (size_t i = 0; i < num_documents; ++i) {
    ++document_;
    // These ends are not negative, so they are the same numbers without a sign.
    add_spans(data, static_cast<size_t>(offsets[i]), reinterpret_cast<const uint64_t*>(ends) + firsts[i],
              static_cast<size_t>(firsts[i + 1] - firsts[i]));
  }
  flush_long();
  return CounterStatus::kOk;
}

inline void Counter::add_spans(const uint8_t* text, size_t begin, const uint64_t* ends, size_t num_ends) {
  Pending& pending = *pending_;
  const size_t max_short = max_short_;
  // A key whose 16 bytes all lie within the data needs no check.
  const uint8_t* const limit = limit_;
  const bool is_inside = num_ends != 0 && limit - (text + ends[num_ends - 1]) >= 16;
  for (size_t i = 0; i < num_ends;) {
    Span* span = pending.spans.data() + pending.size;
    Span* const last = pending.spans.data() + kProbeBatch;
    const uint64_t document = uint64_t{document_} << 32;
    const Index::View index = index_->view();
    size_t size = 0;
    const auto fill = [&](const auto key_of) {
      for (; i < num_ends && span != last; ++i, ++span) {
        size = ends[i] - begin;
        if (size > max_short) [[unlikely]]
          break;
        const Block16 key = key_of(text + begin, size);
        const uint64_t hash = hash_of(key) >> 32;
        __builtin_prefetch(index.group(static_cast<uint32_t>(hash)));
        span->key = key;
        span->document_and_hash = document | hash;
        begin += size;
      }
    };
    if (is_inside) {
      fill([](const uint8_t* bytes, size_t n) { return Row::short_key(bytes, n, bytes + 16); });
    } else {
      fill([limit](const uint8_t* bytes, size_t n) { return Row::short_key(bytes, n, limit); });
    }
    pending.size = static_cast<size_t>(span - pending.spans.data());
    if (span == last) flush();
    if (size > max_short) {
      add_long(text + begin, size);
      begin = ends[i++];
    }
  }
}

// Adds a pre-token that does not fit a row, or that must be cut first into parts, which may fit.
void Counter::add_long(const uint8_t* bytes, size_t size) {
  while (size > max_pretoken_bytes_) {
    // Where a character starts does not depend on the text before it, so three bytes back are enough.
    size_t cut = max_pretoken_bytes_;
    for (size_t back = 1; back <= 3; ++back) {
      const Character character = character_at(bytes, size, cut - back);
      if (character.size > back) {
        cut -= back;
        break;
      }
    }
    add_part(bytes, cut);
    bytes += cut;
    size -= cut;
  }
  add_part(bytes, size);
}

void Counter::add_part(const uint8_t* bytes, size_t size) {
  if (size <= max_short_) {
    const uint64_t end = size;
    return add_spans(bytes, 0, &end, 1);
  }
  Pending& pending = *pending_;
  const uint64_t hash = hash_bytes(bytes, size, limit_);
  __builtin_prefetch(index_->view().group(static_cast<uint32_t>(hash >> 32)));
  pending.long_spans[pending.num_long++] = {bytes, size, hash, document_};
  if (pending.num_long == kLongBatch) flush_long();
}

void Counter::flush() {
  Pending& pending = *pending_;
  const Index::View index = index_->view();
  Row* const first = rows();
  const size_t size = pending.size;
  const auto look = [index, first](Span& span) {
    span.row = first + index.candidate(span.hash());
    __builtin_prefetch(span.row, 1);
  };
  Span* span = pending.spans.data();
  for (size_t i = 0; i < kAhead; ++i) look(span[i]);
  for (Span* const end = span + size; span != end; ++span) {
    look(span[kAhead]);
    Row* const row = span->row->key == span->key ? span->row : row_beyond(*span);
    row->add(span->document());
  }
  num_pretokens_ += size;
  pending.size = 0;
  make_room();
}

// Returns the row of a key whose first candidate was the row of another key. Adds a row if the key has none.
Counter::Row* Counter::row_beyond(const Span& span) {
  Row* const first = rows();
  const auto next = static_cast<uint32_t>(num_rows_ + 1);
  Row* const row = first + index_->view().find_or_add(span.hash(), next, [&](uint32_t number) {
    return first[number].key == span.key;
  });
  if (row == first + next) {
    __builtin_prefetch(row + kAhead, 1);  // a new row will soon be here
    row->key = span.key;
    num_rows_ = next;
    key_bytes_ += row->short_size();
  }
  return row;
}

void Counter::flush_long() {
  flush();  // so that no span waits when rows are added
  Pending& pending = *pending_;
  Row* const first = rows();
  const auto candidate = [&](const LongSpan& span) {
    return first + index_->view().candidate(static_cast<uint32_t>(span.hash >> 32));
  };
  for (size_t i = 0; i < pending.num_long; ++i) __builtin_prefetch(candidate(pending.long_spans[i]), 1);
  for (size_t i = 0; i < pending.num_long; ++i) {
    const Row& row = *candidate(pending.long_spans[i]);
    if (row.is_long()) __builtin_prefetch(reinterpret_cast<const void*>(row.key.low));
  }
  for (size_t i = 0; i < pending.num_long; ++i) {
    const LongSpan& span = pending.long_spans[i];
    const uint64_t key_high = Row::long_key_high(span.hash);
    const auto is_it = [&](uint32_t number) {
      const Row& row = first[number];
      if (row.key.high != key_high) return false;
      const Arena::Head& head = Arena::at(row.key.low);
      return head.size == span.size && std::memcmp(head.key(), span.bytes, span.size) == 0;
    };
    const auto next = static_cast<uint32_t>(num_rows_ + 1);
    arena_->reserve(span.size);
    Row& row = first[index_->view().find_or_add(static_cast<uint32_t>(span.hash >> 32), next, is_it)];
    if (&row == first + next) {
      row.key = {arena_->add(span.bytes, span.size), key_high};
      num_rows_ = next;
      key_bytes_ += span.size;
    }
    row.add(span.document);
  }
  num_pretokens_ += pending.num_long;
  pending.num_long = 0;
  make_room();
}

// Makes room for a batch of either kind. Small tables grow by a factor of four, to reach large pages soon.
void Counter::make_room() {
  const size_t needed = num_rows_ + kProbeBatch + kLongBatch;
  if (needed > index_->max_rows()) {
    const int bits = index_->bits();
    if (bits == 31) throw std::bad_alloc();  // reached at 43 GB
    auto larger = std::make_unique<Index>(bits < 16 ? bits + 2 : std::max(bits + 1, kLargeIndexBits));
    // Insert in order: the rows that came first are frequent, and are found fastest at their first place.
    const Index::View index = larger->view();
    std::array<uint32_t, kAhead> hashes{};
    for (size_t number = 1; number <= num_rows_ + kAhead; ++number) {
      uint32_t& hash = hashes[number % kAhead];
      if (number > kAhead) {
        index.find_or_add(hash, static_cast<uint32_t>(number - kAhead), [](uint32_t) { return false; });
      }
      if (number <= num_rows_) {
        hash = rows()[number].hash();
        __builtin_prefetch(index.group(hash), 1);
      }
    }
    index_ = std::move(larger);
  }
  if (needed > max_rows_) {
    const size_t size = (max_rows_ + 1) * sizeof(Row);
    const size_t more = std::max<size_t>(kLargePage, size / 4 / kLargePage * kLargePage);
    const size_t larger = size < kLargePage ? 4 * size : size + more;
    rows_.grow(larger);
    max_rows_ = larger / sizeof(Row) - 1;
  }
}

// Prepares for a text of that size.
void Counter::begin(size_t text_size) {
  // If memory ran out within a text, waiting spans point into it: drop them.
  pending_->size = pending_->num_long = 0;
  if (num_rows_ == 0 && text_size >= kLargeText) {
    ZeroedMemory rows(kLargePage);
    index_ = std::make_unique<Index>(kLargeIndexBits);
    rows_ = std::move(rows);
    max_rows_ = kLargePage / sizeof(Row) - 1;
  }
  make_room();
}

size_t Counter::memory_bytes() const {
  return (max_rows_ + 1) * sizeof(Row) + index_->size_bytes() + arena_->memory_bytes();
}

// Resets to a counter that has counted nothing.
void Counter::clear(Empty&& empty) {
  rows_ = std::move(empty.rows);
  max_rows_ = Empty::kNumRows - 1;
  num_rows_ = 0;
  index_ = std::move(empty.index);
  arena_ = std::move(empty.arena);
  key_bytes_ = 0;
  num_pretokens_ = 0;
  document_ = 0;
}

Rows Counter::take() { return std::move(take_all({this}, 1).front()); }

}  // namespace tokcore
