#include "counter.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <utility>

#include "character.h"
#include "hash.h"
#include "row_sort.h"
#include "sort_key.h"

namespace tokcore {

namespace {

constexpr size_t kScanBatch = 1024;
constexpr size_t kProbeBatch = 64;
constexpr size_t kLongBatch = 16;
constexpr size_t kInlineBytes = SortKey::kBytes;
constexpr size_t kLineSlots = 2;
constexpr size_t kFirstLines = 1 << 11;
constexpr uint64_t kLong = 255;

// As many rows as a table of that many lines may hold: five eighths of its slots.
constexpr size_t max_rows(size_t num_lines) { return num_lines * kLineSlots / 8 * 5; }

// Of a key that is whole in its sort key. Tables are private, so this hash may be a quick one.
uint64_t hash_of(const SortKey& key) {
  return fold(key.high ^ 0xA0761D6478BD642Fu, key.low ^ 0xE7037ED1A0B428DBu);
}

}  // namespace

// A row. Its key is the sort key where that is whole; of a longer one, the address, and above the mark 255
// the low 56 bits of the hash. An empty slot is zeros, which is no key's sort key: none is empty.
struct Counter::Slot {
  SortKey key;
  uint64_t count;
  uint32_t documents;
  uint32_t last_document;

  bool is_empty() const { return static_cast<uint8_t>(key.low) == 0; }
  bool is_long() const { return static_cast<uint8_t>(key.low) == kLong; }
  uint64_t hash() const { return is_long() ? key.low >> 8 : hash_of(key); }

  void add(uint32_t document) {
    ++count;
    documents += last_document != document ? 1 : 0;
    last_document = document;
  }
};

struct Counter::Span {
  SortKey key;
  Slot* line;
  uint32_t document;
};

struct Counter::LongSpan {
  const uint8_t* bytes;
  size_t size;
  uint64_t hash;
  uint32_t document;
};

struct Counter::Pending {
  std::array<Span, kProbeBatch> spans;
  std::array<LongSpan, kLongBatch> long_spans;
  size_t size = 0;
  size_t num_long = 0;
};

// Keys of more than 15 bytes. Addresses stay valid until the arena is gone.
class Counter::Arena {
 public:
  struct Head {  // what stands before a key
    uint64_t size;
    uint64_t count;  // only while rows are taken

    const uint8_t* key() const { return reinterpret_cast<const uint8_t*>(this + 1); }
  };

  uint64_t add(const uint8_t* bytes, size_t size) {
    const size_t needed = (sizeof(Head) + size + alignof(Head) - 1) / alignof(Head) * alignof(Head);
    if (needed > left_) {
      left_ = std::max(kChunkBytes, needed);
      chunks_.push_back(std::make_unique_for_overwrite<uint8_t[]>(left_));
      next_ = chunks_.back().get();
      memory_bytes_ += left_;
    }
    uint8_t* const place = next_;
    new (place) Head{size, 0};
    std::memcpy(place + sizeof(Head), bytes, size);
    next_ += needed;
    left_ -= needed;
    return reinterpret_cast<uint64_t>(place);
  }

  static Head& at(uint64_t address) { return *reinterpret_cast<Head*>(address); }

  size_t memory_bytes() const { return memory_bytes_; }

 private:
  static constexpr size_t kChunkBytes = 1 << 18;
  std::vector<std::unique_ptr<uint8_t[]>> chunks_;
  uint8_t* next_ = nullptr;
  size_t left_ = 0;
  size_t memory_bytes_ = 0;
};

Counter::Counter(Scanner scanner, size_t max_pretoken_bytes)
    : scanner_(scanner),
      max_pretoken_bytes_(max_pretoken_bytes == 0 ? std::numeric_limits<size_t>::max() : max_pretoken_bytes),
      max_short_(std::min(max_pretoken_bytes_, kInlineBytes)),
      ends_(kScanBatch),
      pending_(std::make_unique<Pending>()),
      num_lines_(kFirstLines),
      table_(kFirstLines * kLineSlots * sizeof(Slot)),
      arena_(std::make_unique<Arena>()) {}

Counter::~Counter() = default;

inline Counter::Slot* Counter::slots() const { return reinterpret_cast<Slot*>(table_.data()); }

inline Counter::Slot* Counter::line_of(uint64_t hash) const {
  return slots() + (hash & (num_lines_ - 1)) * kLineSlots;
}

CounterStatus Counter::add(const uint8_t* data, size_t data_size, const int64_t* offsets,
                           size_t num_documents) {
  if (num_documents >= std::numeric_limits<uint32_t>::max() - document_) {
    return CounterStatus::kTooManyDocuments;
  }
  limit_ = data + data_size;
  make_room();
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
  make_room();
  for (size_t i = 0; i < num_documents; ++i) {
    ++document_;
    // Positive and ascending, they are the same numbers without a sign.
    add_spans(data, static_cast<size_t>(offsets[i]), reinterpret_cast<const uint64_t*>(ends) + firsts[i],
              static_cast<size_t>(firsts[i + 1] - firsts[i]));
  }
  flush_long();
  return CounterStatus::kOk;
}

inline void Counter::add_spans(const uint8_t* text, size_t begin, const uint64_t* ends, size_t num_ends) {
  Pending& pending = *pending_;
  const size_t max_short = max_short_;
  const uint8_t* const limit = limit_;
  for (size_t i = 0; i < num_ends;) {
    Span* span = pending.spans.data() + pending.size;
    Span* const last = pending.spans.data() + kProbeBatch;
    const uint32_t document = document_;
    Slot* const table = slots();
    const size_t mask = num_lines_ - 1;
    size_t size = 0;
    for (; i < num_ends && span != last; ++i, ++span) {
      size = ends[i] - begin;
      if (size > max_short) [[unlikely]]
        break;
      const SortKey key = SortKey::of_short(text + begin, size, limit);
      Slot* const line = table + (hash_of(key) & mask) * kLineSlots;
      __builtin_prefetch(line, 1);
      *span = {key, line, document};
      begin += size;
    }
    pending.size = static_cast<size_t>(span - pending.spans.data());
    if (span == last) flush();
    if (size > max_short) {
      add_long(text + begin, size);
      begin = ends[i++];
    }
  }
}

// A pre-token that does not fit a slot, or has to be cut into parts that may.
void Counter::add_long(const uint8_t* bytes, size_t size) {
  while (size > max_pretoken_bytes_) {
    // Characters start where they do whatever stands before them, so looking back three bytes is enough.
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
  __builtin_prefetch(line_of(hash), 1);
  pending.long_spans[pending.num_long++] = {bytes, size, hash, document_};
  if (pending.num_long == kLongBatch) flush_long();
}

void Counter::flush() {
  Pending& pending = *pending_;
  for (size_t i = 0; i < pending.size; ++i) {
    const Span& span = pending.spans[i];
    // Without a branch for which of the two it is.
    const bool first = span.line[0].key == span.key, second = span.line[1].key == span.key;
    Slot* const slot = first | second ? span.line + second : slot_beyond(span);
    slot->add(span.document);
  }
  num_pretokens_ += pending.size;
  pending.size = 0;
  make_room();
}

// The slot of a key that is not in the first line where it may be, a new one if it is in none.
Counter::Slot* Counter::slot_beyond(const Span& span) {
  Slot* const end = slots() + num_lines_ * kLineSlots;
  for (Slot* slot = span.line;; slot = slot + 1 == end ? slots() : slot + 1) {
    if (slot->is_empty()) {
      slot->key = span.key;
      ++num_rows_;
      key_bytes_ += static_cast<uint8_t>(span.key.low);
      return slot;
    }
    if (slot->key == span.key) {
      // Frequent keys should be found in their first line: whatever is there may be anywhere up to here.
      Slot* const rarer = span.line + (span.line[1].count < span.line[0].count);
      if (rarer->count >= slot->count) return slot;
      std::swap(*rarer, *slot);
      return rarer;
    }
  }
}

void Counter::flush_long() {
  flush();  // as the table may grow
  Pending& pending = *pending_;
  const auto key_low = [](const LongSpan& span) { return span.hash << 8 | kLong; };
  for (size_t i = 0; i < pending.num_long; ++i) {
    const Slot* const line = line_of(pending.long_spans[i].hash);
    for (size_t j = 0; j < kLineSlots; ++j) {
      if (line[j].key.low == key_low(pending.long_spans[i])) {
        __builtin_prefetch(reinterpret_cast<const void*>(line[j].key.high));
      }
    }
  }
  Slot* const end = slots() + num_lines_ * kLineSlots;
  for (size_t i = 0; i < pending.num_long; ++i) {
    const LongSpan& span = pending.long_spans[i];
    for (Slot* slot = line_of(span.hash);; slot = slot + 1 == end ? slots() : slot + 1) {
      if (slot->is_empty()) {
        slot->key = {arena_->add(span.bytes, span.size), key_low(span)};
        ++num_rows_;
        key_bytes_ += span.size;
      } else if (slot->key.low != key_low(span)) {
        continue;
      } else {
        const Arena::Head& head = Arena::at(slot->key.high);
        if (head.size != span.size || std::memcmp(head.key(), span.bytes, span.size) != 0) continue;
      }
      slot->add(span.document);
      break;
    }
  }
  num_pretokens_ += pending.num_long;
  pending.num_long = 0;
  make_room();
}

// Sees to it that there is room for a batch of either kind.
void Counter::make_room() {
  if (num_rows_ + kProbeBatch + kLongBatch <= max_rows(num_lines_)) return;
  const size_t num_slots = num_lines_ * kLineSlots;
  table_.grow(2 * num_slots * sizeof(Slot));
  num_lines_ *= 2;
  // Each row's new home is the old one or num_slots behind it. Rows are moved in the order of their slots,
  // starting behind an empty one: so all that lie between a row and its home have been moved before it, and
  // none goes to a slot that is still to be looked at.
  Slot* const begin = slots();
  size_t empty = 0;
  while (!begin[empty].is_empty()) ++empty;
  const auto move_row = [&](size_t from) {
    const Slot row = std::exchange(begin[from], Slot{});
    auto to = static_cast<size_t>(line_of(row.hash()) - begin);
    while (!begin[to].is_empty()) to = (to + 1) & (2 * num_slots - 1);
    begin[to] = row;
    return to;
  };
  // In each half, all slots from `full` to `next` are full and those from `next` on empty. So a row whose
  // home is not before `full` goes to its home or to `next`, and nothing has to be asked that cannot be
  // predicted: whether there is a row, and which half is its own. An empty slot is moved onto itself.
  struct Half {
    size_t full;
    size_t next;
  };
  Half halves[2] = {{empty + 1, empty + 1}, {num_slots + empty + 1, num_slots + empty + 1}};
  for (size_t i = empty + 1; i < num_slots; ++i) {
    const Slot& row = begin[i];
    const bool is_row = !row.is_empty();
    const auto home = static_cast<size_t>(line_of(row.hash()) - begin);
    Half& half = halves[home >= num_slots];
    if (is_row && home < half.full) [[unlikely]] {
      half.next += move_row(i) == half.next ? 1 : 0;
      continue;
    }
    const size_t to = is_row ? std::max(home, half.next) : i;
    begin[to] = std::exchange(begin[i], Slot{});
    half.full = is_row && home > half.next ? home : half.full;
    half.next = is_row ? to + 1 : half.next;
  }
  for (size_t i = 0; i < empty; ++i) {
    if (!begin[i].is_empty()) move_row(i);
  }
}

size_t Counter::memory_bytes() const {
  return num_lines_ * kLineSlots * sizeof(Slot) + arena_->memory_bytes();
}

Rows Counter::take() {
  // All memory first, so that what is counted stays where there is none.
  ZeroedMemory next_table(kFirstLines * kLineSlots * sizeof(Slot));
  auto next_arena = std::make_unique<Arena>();
  const bool has_room = 2 * num_rows_ <= num_lines_ * kLineSlots;  // for as many rows again behind the rows
  const ZeroedMemory more(has_room ? 0 : num_rows_ * sizeof(Slot));
  Rows out;
  out.data.resize(key_bytes_);
  out.offsets.resize(num_rows_ + 1);
  out.counts.resize(num_rows_);
  out.documents.resize(num_rows_);

  // Moves all rows to the front of the table.
  Slot* const rows = slots();
  size_t num_rows = 0;
  for (size_t i = 0; i < num_lines_ * kLineSlots; ++i) {
    const Slot row = rows[i];
    rows[num_rows] = row;
    num_rows += row.is_empty() ? 0 : 1;
  }
  // Gives long keys their sort key; the address goes where the count was, the count to the key.
  constexpr size_t kPrefetch = 16;
  for (size_t i = 0; i < num_rows; ++i) {
    if (i + kPrefetch < num_rows && rows[i + kPrefetch].is_long()) {
      __builtin_prefetch(reinterpret_cast<const void*>(rows[i + kPrefetch].key.high), 1);
    }
    Slot& row = rows[i];
    if (!row.is_long()) continue;
    const uint64_t address = row.key.high;
    Arena::Head& head = Arena::at(address);
    head.count = std::exchange(row.count, address);
    row.key = SortKey::of(head.key(), head.size, head.key() + head.size);
  }

  const auto before = [](const Slot& a, const Slot& b) {
    if (!(a.key == b.key) || a.key.is_whole()) return a.key < b.key;
    const Arena::Head &a_head = Arena::at(a.count), &b_head = Arena::at(b.count);
    return key_before(a_head.key(), a_head.size, b_head.key(), b_head.size);
  };
  uint8_t* place = out.data.data();
  const uint8_t* const data_end = place + out.data.size();
  size_t i = 0;
  const auto write = [&](const Slot& row) {
    if (row.is_long()) {
      const Arena::Head& head = Arena::at(row.count);
      std::memcpy(place, head.key(), head.size);
      place += head.size;
      out.counts[i] = head.count;
    } else {
      const size_t size = static_cast<uint8_t>(row.key.low);
      if (data_end - place >= 16) {
        row.key.write(place);  // the next key overwrites what is too much
      } else {
        uint8_t block[16];
        row.key.write(block);
        std::memcpy(place, block, size);
      }
      place += size;
      out.counts[i] = row.count;
    }
    out.documents[i] = row.documents;
    out.offsets[++i] = place - out.data.data();
  };
  Slot* const spare = has_room ? rows + num_rows : reinterpret_cast<Slot*>(more.data());
  RowSort<Slot, decltype(before), decltype(write)>(before, write).visit_in_order(rows, spare, num_rows);

  table_ = std::move(next_table);
  arena_ = std::move(next_arena);
  num_lines_ = kFirstLines;
  num_rows_ = 0;
  key_bytes_ = 0;
  num_pretokens_ = 0;
  document_ = 0;
  return out;
}

}  // namespace tokcore
