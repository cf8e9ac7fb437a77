// DESCRIPTION
// PretokenCache remembers the ids of pre-tokens that were encoded before, within a fixed number of bytes.
// Results never depend on it: every find compares the whole key.
//
// Pre-tokens of at most 15 bytes and 4 ids, which are nearly all, live in 32-byte entries, two to a cache
// line:
//     bytes 0-14   the pre-token, zeros after it       byte 15  its size (bits 0-3), number of ids (4-6),
//     used (7) bytes 16-31  the ids
// A newcomer replaces an entry that was not used since it came, so that words seen once do not drive out the
// common ones. The others (long, or of many ids) live in a ring of records, found by an entry or through a
// table of positions; the ring overwrites its oldest records. One thread at a time.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "hash.h"
#include "zeroed_memory.h"

namespace tokcore {

class PretokenCache {
 public:
  static constexpr size_t kMaxShortBytes = 15;
  static constexpr size_t kMaxShortIds = 4;
  static constexpr size_t kMaxLongBytes = 512;

  // A pre-token of 1 to 15 bytes as the entries hold it, and where to look for it.
  struct Key {
    uint64_t low;
    uint64_t high;
    uint64_t bucket;
  };

  struct Entry {
    uint64_t low;
    uint64_t high;
    int32_t ids[kMaxShortIds];

    // Number of ids; above kMaxShortIds if they are in the ring.
    size_t count() const { return high >> 60 & 7; }
  };

  struct Ids {
    const int32_t* ids;  // nullptr: not known
    size_t count;
  };

  // budget_bytes: all the memory that it may hold; below kMinBudgetBytes it remembers nothing.
  explicit PretokenCache(size_t budget_bytes) : budget_bytes_(budget_bytes) {
    keeps_ = budget_bytes >= kMinBudgetBytes;
    const size_t num_buckets = keeps_ ? std::bit_floor(budget_bytes / 8 * 5) / sizeof(Bucket) : 2;
    const size_t num_places = keeps_ ? std::bit_floor(budget_bytes / 8) / sizeof(Place) : 2;
    ring_size_ = keeps_ ? budget_bytes / 4 / 8 * 8 : 0;
    head_ = 2 * uint64_t{ring_size_};
    bucket_shift_ = 64 - static_cast<unsigned>(std::countr_zero(num_buckets));
    place_shift_ = 64 - static_cast<unsigned>(std::countr_zero(num_places));
    bucket_memory_ = ZeroedMemory(num_buckets * sizeof(Bucket));
    place_memory_ = ZeroedMemory(num_places * sizeof(Place));
    ring_memory_ = ZeroedMemory(ring_size_);
    buckets_ = reinterpret_cast<Bucket*>(bucket_memory_.data());
    places_ = reinterpret_cast<Place*>(place_memory_.data());
  }

  size_t budget_bytes() const { return budget_bytes_; }

  // Reads no byte at or after `limit`. 0 < size <= kMaxShortBytes.
  Key key(const uint8_t* text, size_t size, const uint8_t* limit) const {
    uint64_t halves[2] = {0, 0};
    if (limit - text >= 16) {
      std::memcpy(halves, text, 16);
    } else {
      std::memcpy(halves, text, size);
    }
    Key key;
    key.low = little_endian(halves[0]) & kLowMask[size];
    key.high = (little_endian(halves[1]) & kHighMask[size]) | uint64_t{size} << 56;
    key.bucket = fold(key.low ^ 0xA0761D6478BD642Fu, key.high ^ 0xE7037ED1A0B428DBu) >> bucket_shift_;
    return key;
  }

  void prefetch(const Key& key) const { __builtin_prefetch(&buckets_[key.bucket], 1); }

  // The entry of that key, marked as used, or nullptr.
  Entry* find(const Key& key) {
    Bucket& bucket = buckets_[key.bucket];
    const bool is_first =
        bucket.entries[0].low == key.low && ((bucket.entries[0].high ^ key.high) & kKeyBits) == 0;
    const bool is_second =
        bucket.entries[1].low == key.low && ((bucket.entries[1].high ^ key.high) & kKeyBits) == 0;
    if (!(is_first | is_second)) return nullptr;
    Entry* entry = &bucket.entries[is_second];
    if ((entry->high & kUsed) == 0) entry->high |= kUsed;
    return entry;
  }

  // The ids of an entry whose count is above kMaxShortIds, if the ring still has them.
  Ids in_ring(const Entry& entry) const {
    uint64_t position;
    std::memcpy(&position, &entry.ids[0], sizeof(position));
    if (position + ring_size_ < head_) return {nullptr, 0};
    return {reinterpret_cast<const int32_t*>(ring(position)), static_cast<uint32_t>(entry.ids[2])};
  }

  void insert(const Key& key, const int32_t* ids, size_t count) {
    if (!keeps_) return;
    Entry made{key.low, key.high, {0, 0, 0, 0}};
    if (count <= kMaxShortIds) {
      std::memcpy(made.ids, ids, count * sizeof(int32_t));
      made.high |= uint64_t{count} << 60;
    } else {
      const uint64_t position = append(count * sizeof(int32_t));
      if (position == kNoRoom) return;
      std::memcpy(ring(position), ids, count * sizeof(int32_t));
      std::memcpy(&made.ids[0], &position, sizeof(position));
      made.ids[2] = static_cast<int32_t>(count);
      made.high |= uint64_t{7} << 60;
    }
    Entry* entries = buckets_[key.bucket].entries;
    size_t at = entries[0].low == key.low && ((entries[0].high ^ key.high) & kKeyBits) == 0 ? 0 : 1;
    const bool is_there = entries[at].low == key.low && ((entries[at].high ^ key.high) & kKeyBits) == 0;
    if (!is_there) {
      if (entries[0].high == 0) {
        at = 0;
      } else if ((entries[1].high & kUsed) == 0) {
        at = 1;
      } else if ((entries[0].high & kUsed) == 0) {
        at = 0;
      } else {
        entries[0].high &= ~kUsed;  // must prove itself again
        at = 1;
      }
    }
    entries[at] = made;
  }

  // The ids of a pre-token above 15 bytes. hash: hash_bytes of it.
  Ids find_long(const uint8_t* text, size_t size, uint64_t hash) const {
    const Place& place = places_[hash >> place_shift_];
    if (place.hash != hash || place.position + ring_size_ < head_) return {nullptr, 0};
    const uint8_t* record = ring(place.position);
    RecordHeader header;
    std::memcpy(&header, record, sizeof(header));
    const uint8_t* ids = record + sizeof(header);
    if (header.size != size || std::memcmp(ids + header.count * sizeof(int32_t), text, size) != 0)
      return {nullptr, 0};
    return {reinterpret_cast<const int32_t*>(ids), header.count};
  }

  void insert_long(const uint8_t* text, size_t size, uint64_t hash, const int32_t* ids, size_t count) {
    if (!keeps_) return;
    const RecordHeader header{static_cast<uint32_t>(size), static_cast<uint32_t>(count)};
    const uint64_t position = append(sizeof(header) + count * sizeof(int32_t) + size);
    if (position == kNoRoom) return;
    uint8_t* record = ring(position);
    std::memcpy(record, &header, sizeof(header));
    std::memcpy(record + sizeof(header), ids, count * sizeof(int32_t));
    std::memcpy(record + sizeof(header) + count * sizeof(int32_t), text, size);
    places_[hash >> place_shift_] = {hash, position};
  }

  static constexpr size_t kMinBudgetBytes = 4096;

 private:
  struct alignas(64) Bucket {
    Entry entries[2];
  };
  struct Place {
    uint64_t hash;
    uint64_t position;
  };
  struct RecordHeader {
    uint32_t size;
    uint32_t count;
  };

  static constexpr uint64_t kUsed = uint64_t{1} << 63;
  static constexpr uint64_t kKeyBits = (uint64_t{1} << 60) - 1;
  static constexpr uint64_t kNoRoom = UINT64_MAX;
  static constexpr uint64_t kLowMask[16] = {0,          0xFF,         0xFFFF,         0xFFFFFF,
                                            0xFFFFFFFF, 0xFFFFFFFFFF, 0xFFFFFFFFFFFF, 0xFFFFFFFFFFFFFF,
                                            UINT64_MAX, UINT64_MAX,   UINT64_MAX,     UINT64_MAX,
                                            UINT64_MAX, UINT64_MAX,   UINT64_MAX,     UINT64_MAX};
  static constexpr uint64_t kHighMask[16] = {0,
                                             0,
                                             0,
                                             0,
                                             0,
                                             0,
                                             0,
                                             0,
                                             0,
                                             0xFF,
                                             0xFFFF,
                                             0xFFFFFF,
                                             0xFFFFFFFF,
                                             0xFFFFFFFFFF,
                                             0xFFFFFFFFFFFF,
                                             0xFFFFFFFFFFFFFF};

  uint8_t* ring(uint64_t position) const { return ring_memory_.data() + position % ring_size_; }

  // Room for a record in one run. A position counts all bytes ever appended, so that overwritten ones are
  // known.
  uint64_t append(size_t size) {
    size = (size + 7) / 8 * 8;
    if (size > ring_size_ / 4) return kNoRoom;
    if (head_ % ring_size_ + size > ring_size_) head_ += ring_size_ - head_ % ring_size_;
    const uint64_t position = head_;
    head_ += size;
    return position;
  }

  ZeroedMemory bucket_memory_;
  ZeroedMemory place_memory_;
  ZeroedMemory ring_memory_;
  Bucket* buckets_;
  Place* places_;
  size_t budget_bytes_;
  size_t ring_size_;
  uint64_t head_;
  unsigned bucket_shift_;
  unsigned place_shift_;
  bool keeps_;
};

}  // namespace tokcore
