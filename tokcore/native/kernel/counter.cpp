#include "counter.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <utility>

#include "character.h"
#include "hash.h"
#include "sort_key.h"

namespace tokcore {

namespace {

constexpr size_t kScanBatch = 1024;
constexpr size_t kProbeBatch = 64;
constexpr size_t kInlineBytes = SortKey::kBytes;
constexpr size_t kFirstSlots = 1 << 12;
constexpr uint64_t kLongMark = uint64_t{0xFF} << 56;
constexpr uint64_t kTagMask = (uint64_t{1} << 56) - 1;

// As many rows as a table of that many slots may hold: five eighths.
constexpr size_t max_rows(size_t num_slots) { return num_slots / 8 * 5; }

}  // namespace

// A row. The key's last byte tells what is in the others: 0, an empty slot; 1 to 15, as many bytes of the
// key, zeros behind them; 255, the address of a longer key and the low 56 bits of its hash.
struct alignas(32) Counter::Slot {  // one never lies across two cache lines
  uint64_t key_low;
  uint64_t key_high;
  uint64_t count;
  uint32_t documents;
  uint32_t last_document;

  uint8_t kind() const { return static_cast<uint8_t>(key_high >> 56); }

  void add(uint32_t document) {
    ++count;
    documents += last_document != document ? 1 : 0;
    last_document = document;
  }
};

struct Counter::Span {
  uint64_t key_low;
  uint64_t key_high;
  uint64_t hash;
  uint32_t document;
};

struct Counter::Pending {
  std::array<Span, kProbeBatch> spans;
  size_t size = 0;
};

// Keys of more than 15 bytes, each behind its length. Addresses stay valid until the arena is gone.
class Counter::Arena {
 public:
  uint64_t add(const uint8_t* bytes, size_t size) {
    const size_t needed = sizeof(uint64_t) + size;
    if (needed > left_) {
      left_ = std::max(kChunkBytes, needed);
      chunks_.push_back(std::make_unique_for_overwrite<uint8_t[]>(left_));
      next_ = chunks_.back().get();
      memory_bytes_ += left_;
    }
    uint8_t* const place = next_;
    const uint64_t stored = size;
    std::memcpy(place, &stored, sizeof stored);
    std::memcpy(place + sizeof stored, bytes, size);
    next_ += needed;
    left_ -= needed;
    return reinterpret_cast<uint64_t>(place);
  }

  static std::pair<const uint8_t*, size_t> key_at(uint64_t address) {
    const auto* place = reinterpret_cast<const uint8_t*>(address);
    uint64_t size;
    std::memcpy(&size, place, sizeof size);
    return {place + sizeof size, size};
  }

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
      ends_(kScanBatch),
      pending_(std::make_unique<Pending>()),
      slots_(kFirstSlots),
      arena_(std::make_unique<Arena>()) {}

Counter::~Counter() = default;

CounterStatus Counter::add(const uint8_t* data, size_t data_size, const int64_t* offsets,
                           size_t num_documents) {
  if (num_documents >= std::numeric_limits<uint32_t>::max() - document_) {
    return CounterStatus::kTooManyDocuments;
  }
  limit_ = data + data_size;
  for (size_t i = 0; i < num_documents; ++i) {
    ++document_;
    const uint8_t* const text = data + offsets[i];
    const auto size = static_cast<size_t>(offsets[i + 1] - offsets[i]);
    size_t begin = 0;
    while (begin < size) {
      const size_t scanned = scanner_.scan(text, size, begin, ends_.data(), kScanBatch);
      for (size_t j = 0; j < scanned; ++j) {
        const size_t end = ends_[j];
        add_span(text + begin, text + end);
        begin = end;
      }
    }
  }
  flush();
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
  for (size_t i = 0; i < num_documents; ++i) {
    ++document_;
    int64_t begin = offsets[i];
    for (int64_t j = firsts[i]; j < firsts[i + 1]; begin = ends[j++]) add_span(data + begin, data + ends[j]);
  }
  flush();
  return CounterStatus::kOk;
}

inline void Counter::add_span(const uint8_t* begin, const uint8_t* end) {
  const auto size = static_cast<size_t>(end - begin);
  if (size <= max_pretoken_bytes_) [[likely]] {
    add_part(begin, size);
    return;
  }
  while (static_cast<size_t>(end - begin) > max_pretoken_bytes_) {
    // Characters start where they do whatever stands before them, so looking back three bytes is enough.
    size_t cut = max_pretoken_bytes_;
    for (size_t back = 1; back <= 3; ++back) {
      const Character character = character_at(begin, static_cast<size_t>(end - begin), cut - back);
      if (character.size > back) {
        cut -= back;
        break;
      }
    }
    add_part(begin, cut);
    begin += cut;
  }
  add_part(begin, static_cast<size_t>(end - begin));
}

inline void Counter::add_part(const uint8_t* begin, size_t size) {
  ++num_pretokens_;
  if (size > kInlineBytes) [[unlikely]] {
    count_long(begin, size, hash_bytes(begin, size, limit_), document_);
    return;
  }
  const Block16 block = load_block(begin, size, limit_);
  const uint64_t hash = hash_block(block, size);
  Pending& pending = *pending_;
  pending.spans[pending.size++] = {block.low, block.high | static_cast<uint64_t>(size) << 56, hash,
                                   document_};
  __builtin_prefetch(&slots_[hash & (slots_.size() - 1)]);
  if (pending.size == kProbeBatch) flush();
}

void Counter::flush() {
  Pending& pending = *pending_;
  if (num_rows_ + pending.size > max_rows(slots_.size())) grow();
  const size_t mask = slots_.size() - 1;
  Slot* const slots = slots_.data();
  for (size_t i = 0; i < pending.size; ++i) {
    const Span& span = pending.spans[i];
    size_t at = span.hash & mask;
    while (slots[at].key_low != span.key_low || slots[at].key_high != span.key_high) {
      if (slots[at].kind() == 0) {
        slots[at].key_low = span.key_low;
        slots[at].key_high = span.key_high;
        ++num_rows_;
        break;
      }
      at = (at + 1) & mask;
    }
    slots[at].add(span.document);
  }
  pending.size = 0;
}

void Counter::count_long(const uint8_t* bytes, size_t size, uint64_t hash, uint32_t document) {
  if (num_rows_ + kProbeBatch > max_rows(slots_.size())) grow();
  const uint64_t key_high = kLongMark | (hash & kTagMask);
  const size_t mask = slots_.size() - 1;
  for (size_t at = hash & mask;; at = (at + 1) & mask) {
    Slot& slot = slots_[at];
    if (slot.kind() == 0) {
      slot.key_low = arena_->add(bytes, size);
      slot.key_high = key_high;
      ++num_rows_;
      slot.add(document);
      return;
    }
    if (slot.key_high != key_high) continue;
    const auto [key, key_size] = Arena::key_at(slot.key_low);
    if (key_size == size && std::memcmp(key, bytes, size) == 0) {
      slot.add(document);
      return;
    }
  }
}

void Counter::grow() {
  std::vector<Slot> larger(slots_.size() * 2);
  const size_t mask = larger.size() - 1;
  for (const Slot& slot : slots_) {
    const uint8_t kind = slot.kind();
    if (kind == 0) continue;
    const uint64_t hash =
        kind > kInlineBytes ? slot.key_high : hash_block({slot.key_low, slot.key_high & kTagMask}, kind);
    size_t at = hash & mask;
    while (larger[at].kind() != 0) at = (at + 1) & mask;
    larger[at] = slot;
  }
  slots_ = std::move(larger);
}

void Counter::clear() {
  slots_ = std::vector<Slot>(kFirstSlots);
  arena_ = std::make_unique<Arena>();
  num_rows_ = 0;
  num_pretokens_ = 0;
  document_ = 0;
}

size_t Counter::memory_bytes() const { return slots_.size() * sizeof(Slot) + arena_->memory_bytes(); }

Rows Counter::take() {
  // One pass by the first two bytes, then a comparison sort of each bucket.
  constexpr size_t kBuckets = 1 << 16;
  std::vector<size_t> starts(kBuckets + 1, 0);
  struct Place {
    SortKey key;
    uint32_t slot;
  };
  std::vector<Place> sorted(num_rows_);
  size_t key_bytes = 0;
  const auto sort_key = [](const Slot& slot) -> SortKey {
    if (slot.kind() <= kInlineBytes) {
      return {byte_swapped(slot.key_low), byte_swapped(slot.key_high & kTagMask) | slot.kind()};
    }
    const auto [key, size] = Arena::key_at(slot.key_low);
    return SortKey::of(key, size, key + size);
  };
  for (const Slot& slot : slots_) {
    if (slot.kind() == 0) continue;
    ++starts[(sort_key(slot).high >> 48) + 1];
    key_bytes += slot.kind() <= kInlineBytes ? slot.kind() : Arena::key_at(slot.key_low).second;
  }
  for (size_t bucket = 0; bucket < kBuckets; ++bucket) starts[bucket + 1] += starts[bucket];
  std::vector<size_t> next(starts.begin(), starts.end() - 1);
  for (size_t i = 0; i < slots_.size(); ++i) {
    if (slots_[i].kind() == 0) continue;
    const SortKey key = sort_key(slots_[i]);
    sorted[next[key.high >> 48]++] = {key, static_cast<uint32_t>(i)};
  }
  const auto before = [this](const Place& a, const Place& b) {
    if (!(a.key == b.key) || a.key.is_whole()) return a.key < b.key;
    const auto [a_key, a_size] = Arena::key_at(slots_[a.slot].key_low);
    const auto [b_key, b_size] = Arena::key_at(slots_[b.slot].key_low);
    return key_before(a_key, a_size, b_key, b_size);
  };
  for (size_t bucket = 0; bucket < kBuckets; ++bucket) {
    std::sort(sorted.begin() + static_cast<ptrdiff_t>(starts[bucket]),
              sorted.begin() + static_cast<ptrdiff_t>(starts[bucket + 1]), before);
  }

  Rows rows;
  rows.data.resize(key_bytes);
  rows.offsets.resize(num_rows_ + 1);
  rows.counts.resize(num_rows_);
  rows.documents.resize(num_rows_);
  uint8_t* place = rows.data.data();
  const uint8_t* const data_end = place + key_bytes;
  for (size_t i = 0; i < sorted.size(); ++i) {
    if (i + 8 < sorted.size()) __builtin_prefetch(&slots_[sorted[i + 8].slot]);
    const Slot& slot = slots_[sorted[i].slot];
    if (slot.kind() <= kInlineBytes) {
      const Block16 block{little_endian(slot.key_low), little_endian(slot.key_high)};
      // Sixteen bytes at once where there is room: the next key overwrites what is too much.
      std::memcpy(place, &block, data_end - place >= 16 ? 16 : slot.kind());
      place += slot.kind();
    } else {
      const auto [key, size] = Arena::key_at(slot.key_low);
      std::memcpy(place, key, size);
      place += size;
    }
    rows.offsets[i + 1] = place - rows.data.data();
    rows.counts[i] = slot.count;
    rows.documents[i] = slot.documents;
  }
  clear();
  return rows;
}

}  // namespace tokcore
