// DESCRIPTION
// PretokenCache remembers the ids of pre-tokens that were encoded before, in a fixed number of bytes. It
// never changes a result: every find compares the whole key.
//
// Nearly all pre-tokens have at most 15 bytes and 4 ids. They live in 32-byte entries, two to a cache line:
//     bytes 0-14   the pre-token, zeros after it
//     byte 15      its size (bits 0-3), number of ids (4-6), used (7)
//     bytes 16-31  the ids
// A new entry replaces one that was not used since it was added, so that words seen once do not drive out
// common ones. All other pre-tokens (long, or with many ids) live in a ring of records, which an entry or a
// table of positions points to; the ring overwrites its oldest records. Not thread-safe.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "memory/hash.h"
#include "memory/zeroed_memory.h"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace tokcore {

using Bytes16 = uint64_t __attribute__((vector_size(16)));

// 1 if all bits are zero, else 0; computed, because compilers would make a conditional a branch.
inline uint32_t is_zero(Bytes16 bytes) {
#if defined(__SSE2__)
  const __m128i equal = _mm_cmpeq_epi8(reinterpret_cast<__m128i>(bytes), _mm_setzero_si128());
  return (static_cast<uint32_t>(_mm_movemask_epi8(equal)) + 1) >> 16;
#else
  const uint64_t any = bytes[0] | bytes[1];
  return static_cast<uint32_t>(~(any | -any) >> 63);
#endif
}

// By size: a mask for the bytes of a pre-token of up to 15 bytes, and that size in the last byte.
struct KeyMasks {
  Bytes16 bytes[16], size[16];

  constexpr KeyMasks() : bytes{}, size{} {
    for (uint64_t i = 1; i < 16; ++i) {
      const uint64_t low = i >= 8 ? ~uint64_t{0} : (uint64_t{1} << (8 * i)) - 1;
      const uint64_t high = i <= 8 ? 0 : (uint64_t{1} << (8 * (i - 8))) - 1;
      bytes[i] = Bytes16{little_endian(low), little_endian(high)};
      size[i] = Bytes16{0, little_endian(i << 56)};
    }
  }
};
inline constexpr KeyMasks kKeyMasks;

class PretokenCache {
 public:
  static constexpr size_t kMaxShortBytes = 15;
  static constexpr size_t kMaxShortIds = 4;
  static constexpr size_t kMaxLongBytes = 512;

  // A pre-token of 1 to 15 bytes in the form of entries, and its bucket.
  struct Key {
    Bytes16 bytes;
    size_t bucket;  // its offset in bytes
  };

  struct Entry {
    Bytes16 key;
    int32_t ids[kMaxShortIds];

    // The number of ids, or kInRing or kPromised.
    size_t count() const { return high() >> 60 & 7; }
    uint64_t high() const { return little_endian(key[1]); }
  };
  static constexpr size_t kInRing = 7;    // the ids are in the ring
  static constexpr size_t kPromised = 6;  // see promise()

  // An entry and its count(); nullptr if there is none.
  struct Found {
    const Entry* entry;
    size_t count;
  };

  struct alignas(64) Bucket {
    Entry entries[2];
  };

  // Finds entries. A loop can hold it in registers; valid as long as the cache.
  class Entries {
   public:
    Entries(uint8_t* buckets, uint64_t num_buckets) : buckets_(buckets), num_buckets_(num_buckets) {}

    // Reads no byte at or after `limit`. 0 < size <= kMaxShortBytes.
    Key key(const uint8_t* text, size_t size, const uint8_t* limit) const {
      if (limit - text >= 16) return key_inside(text, size);
      Bytes16 bytes{0, 0};
      std::memcpy(&bytes, text, size);
      return key_of(bytes, size);
    }
    // The same if 16 bytes may be read.
    Key key_inside(const uint8_t* text, size_t size) const {
      Bytes16 bytes;
      std::memcpy(&bytes, text, 16);
      return key_of(bytes, size);
    }
    // Of the first bytes of a block, the last byte of which does not count.
    Key key_of(Bytes16 bytes, size_t size) const {
      bytes = (bytes & kKeyMasks.bytes[size]) | kKeyMasks.size[size];
      const uint64_t hash = bytes[0] * 0x9E3779B97F4A7C15u + bytes[1] * 0xD6E8FEB86659FD93u;
      // The highest bits of a product depend on most of what was multiplied.
      return {bytes, ((hash >> 32) * num_buckets_ >> 32) * sizeof(Bucket)};
    }

    void prefetch(const Key& key) const { __builtin_prefetch(buckets_ + key.bucket, 1); }

    // The entry of that key, which is marked as used.
    Found find(const Key& key) const {
      // No conditional: which of the two entries it is cannot be predicted.
      Entry* entries = entries_of(key);
      const uint32_t is_first = same(entries[0], key), is_second = same(entries[1], key);
      if ((is_first | is_second) == 0) [[unlikely]]
        return {nullptr, 0};
      Entry* entry = entries + is_second;
      const uint64_t high = entry->high();
      if ((high & kUsed) == 0) [[unlikely]]
        entry->key[1] |= little_endian(kUsed);
      return {entry, static_cast<size_t>(high >> 60 & 7)};
    }

    Entry* entries_of(const Key& key) const { return reinterpret_cast<Entry*>(buckets_ + key.bucket); }

   private:
    uint8_t* buckets_;
    uint64_t num_buckets_;  // below 2^32
  };

  struct Ids {
    const int32_t* ids;  // nullptr if they are not known
    size_t count;
  };

  // budget_bytes: limit of its memory; below kMinBudgetBytes it remembers nothing.
  explicit PretokenCache(size_t budget_bytes) : budget_bytes_(budget_bytes) {
    keeps_ = budget_bytes >= kMinBudgetBytes;
    num_buckets_ = keeps_ ? std::min(budget_bytes / 4 * 3 / sizeof(Bucket), size_t{UINT32_MAX}) : 2;
    const size_t num_places = keeps_ ? std::bit_floor(budget_bytes / 16) / sizeof(Place) : 2;
    ring_size_ = keeps_ ? budget_bytes / 16 * 3 / 8 * 8 : 0;
    head_ = 2 * uint64_t{ring_size_};
    place_shift_ = 64 - static_cast<unsigned>(std::countr_zero(num_places));
    // One more than is used: readers take four ids at once, also from the third id of the last entry on.
    bucket_memory_ = ZeroedMemory((num_buckets_ + 1) * sizeof(Bucket));
    place_memory_ = ZeroedMemory(num_places * sizeof(Place));
    ring_memory_ = ZeroedMemory(ring_size_ + kMaxShortIds * sizeof(int32_t));
    places_ = reinterpret_cast<Place*>(place_memory_.data());
    // All of it is touched soon: do that now, not in the middle of the first text.
    std::memset(place_memory_.data(), 0, num_places * sizeof(Place));
  }

  size_t budget_bytes() const { return budget_bytes_; }

  Entries entries() const { return {bucket_memory_.data(), num_buckets_}; }

  // The hash of a pre-token above 15 bytes, or of its first kMaxLongBytes bytes, as a key that equals no
  // entry: entries have a size, free ones only zeros. Prefetches what find_long() reads first.
  Key long_key(const uint8_t* text, size_t size, const uint8_t* limit) const {
    const uint64_t hash = hash_bytes(text, size, limit) | 1;
    __builtin_prefetch(&places_[hash >> place_shift_]);
    return Key{Bytes16{hash, 0}, 0};
  }

  // The ids of an entry in the ring, if the ring still has them. They may be copied four at a time: the bytes
  // after them are the ring's memory.
  Ids in_ring(const Entry& entry) const {
    uint64_t position;
    std::memcpy(&position, &entry.ids[0], sizeof(position));
    if (position + ring_size_ < head_) return {nullptr, 0};
    return {reinterpret_cast<const int32_t*>(ring(position)), static_cast<uint32_t>(entry.ids[2])};
  }

  void insert(const Key& key, const int32_t* ids, size_t count) {
    if (!keeps_) return;
    if (count <= kMaxShortIds) {
      int32_t own[kMaxShortIds] = {};
      std::memcpy(own, ids, count * sizeof(int32_t));
      put(key, count, own);
      return;
    }
    const uint64_t position = append(count * sizeof(int32_t));
    if (position == kNoRoom) return;
    std::memcpy(ring(position), ids, count * sizeof(int32_t));
    put_note(key, kInRing, position, static_cast<int32_t>(count));
  }

  // Notes that the ids of that key will come: in_promise() returns the same two numbers until insert().
  void promise(const Key& key, uint64_t when, uint32_t number) {
    if (keeps_) put_note(key, kPromised, when, static_cast<int32_t>(number));
  }
  static bool in_promise(const Entry& entry, uint64_t when, uint32_t* number) {
    uint64_t noted;
    std::memcpy(&noted, entry.ids, sizeof(noted));
    *number = static_cast<uint32_t>(entry.ids[2]);
    return entry.count() == kPromised && noted == when;
  }

  // Fetches the record that find_long() reads. key: a long_key() that was made a while ago, so that its place
  // is there by now.
  void prefetch_long(const Key& key) const {
    const Place& place = places_[key.bytes[0] >> place_shift_];
    if (place.hash != key.bytes[0]) return;
    const uint8_t* record = ring(place.position);
    __builtin_prefetch(record);
    __builtin_prefetch(record + 64);
  }

  // The ids of a pre-token above 15 bytes. key: its long_key().
  Ids find_long(const uint8_t* text, size_t size, const Key& key) const {
    const uint64_t hash = key.bytes[0];
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

  void insert_long(const uint8_t* text, size_t size, const Key& key, const int32_t* ids, size_t count) {
    if (!keeps_) return;
    const uint64_t hash = key.bytes[0];
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
  static uint32_t same(const Entry& entry, const Key& key) {
    return is_zero((entry.key ^ key.bytes) & Bytes16{~uint64_t{0}, little_endian(kKeyBits)});
  }

  void put_note(const Key& key, size_t kind, uint64_t first, int32_t second) {
    int32_t note[kMaxShortIds] = {};
    std::memcpy(note, &first, sizeof(first));
    note[2] = second;
    put(key, kind, note);
  }

  void put(const Key& key, size_t count, const int32_t* ids) {
    Entry* entries = this->entries().entries_of(key);
    size_t at = 1 - same(entries[0], key);
    if (same(entries[at], key) == 0) {
      if (entries[0].high() == 0) {
        at = 0;
      } else if ((entries[1].high() & kUsed) == 0) {
        at = 1;
      } else if ((entries[0].high() & kUsed) == 0) {
        at = 0;
      } else {
        entries[0].key[1] &= little_endian(~kUsed);  // must be used again to stay
        at = 1;
      }
    }
    entries[at].key = key.bytes | Bytes16{0, little_endian(uint64_t{count} << 60)};
    std::memcpy(entries[at].ids, ids, sizeof(entries[at].ids));
  }

  uint8_t* ring(uint64_t position) const { return ring_memory_.data() + position % ring_size_; }

  // Makes room for a record. A position counts all bytes ever appended, which shows what was overwritten.
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
  Place* places_;
  size_t budget_bytes_;
  size_t ring_size_;
  uint64_t head_;
  size_t num_buckets_;
  unsigned place_shift_;
  bool keeps_;
};

}  // namespace tokcore
