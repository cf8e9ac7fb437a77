// DESCRIPTION
// The parts of a Counter's table: its rows, the keys that do not fit them, and the index that finds rows. Not
// thread-safe.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <vector>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include "count/counter.h"
#include "memory/hash.h"
#include "memory/zeroed_memory.h"

namespace tokcore {

// The hash of a key that fits its row. No result depends on it, so it may be a quick one.
inline uint64_t hash_of(const Block16& key) {
  return fold(key.low ^ 0xA0761D6478BD642Fu, key.high ^ 0xE7037ED1A0B428DBu);
}

inline bool operator==(const Block16& a, const Block16& b) { return a.low == b.low && a.high == b.high; }

// A row's key is up to 15 bytes, zeros after its end, and its length: the bytes of its sort key. For a longer
// key it is the address, the high 56 bits of the hash, and the mark 255. No key is all zeros.
struct Counter::Row {
  Block16 key;
  uint64_t count;
  uint32_t documents;
  uint32_t last_document;

  static constexpr uint64_t kLongMark = 255;

  static Block16 short_key(const uint8_t* bytes, size_t size, const uint8_t* limit) {
    Block16 key = load_block(bytes, size, limit);
    key.high |= static_cast<uint64_t>(size) << 56;
    return key;
  }
  static uint64_t long_key_high(uint64_t hash) { return hash >> 8 | kLongMark << 56; }

  size_t short_size() const { return key.high >> 56; }
  bool is_long() const { return short_size() == kLongMark; }
  size_t key_size() const;
  // 32 bits that choose a place, and tell most other rows there.
  uint32_t hash() const { return static_cast<uint32_t>((is_long() ? key.high << 8 : hash_of(key)) >> 32); }

  void add(uint32_t document) {
    ++count;
    documents += last_document != document ? 1 : 0;
    last_document = document;
  }
};

// Keys of more than 15 bytes. Their addresses stay valid as long as the arena.
class Counter::Arena {
 public:
  struct Head {  // comes before a key
    uint64_t size;

    const uint8_t* key() const { return reinterpret_cast<const uint8_t*>(this + 1); }
  };

  void reserve(size_t size) {
    const size_t needed = needed_for(size);
    if (needed <= left_) return;
    const size_t chunk = std::max(kChunkBytes, needed);
    chunks_.push_back(std::make_unique_for_overwrite<uint8_t[]>(chunk));
    next_ = chunks_.back().get();
    left_ = chunk;
    memory_bytes_ += chunk;
  }

  // Stores a new key, for which room was reserved, and returns its address.
  uint64_t add(const uint8_t* bytes, size_t size) {
    uint8_t* const place = next_;
    new (place) Head{size};
    std::memcpy(place + sizeof(Head), bytes, size);
    next_ += needed_for(size);
    left_ -= needed_for(size);
    return reinterpret_cast<uint64_t>(place);
  }

  static const Head& at(uint64_t address) { return *reinterpret_cast<const Head*>(address); }

  size_t memory_bytes() const { return memory_bytes_; }

 private:
  static constexpr size_t kChunkBytes = 1 << 18;

  static size_t needed_for(size_t size) {
    return (sizeof(Head) + size + alignof(Head) - 1) / alignof(Head) * alignof(Head);
  }

  std::vector<std::unique_ptr<uint8_t[]>> chunks_;
  uint8_t* next_ = nullptr;
  size_t left_ = 0;
  size_t memory_bytes_ = 0;
};

inline size_t Counter::Row::key_size() const { return is_long() ? Arena::at(key.low).size : short_size(); }

// Four entries of the index, side by side; empty ones come last.
struct Group {
  static constexpr int kBits = 2;
  static constexpr size_t kSize = size_t{1} << kBits;

  std::array<uint32_t, kSize> entries;

  // Bit i is set if entry i has that value in the bits of `mask`.
  unsigned matches(uint32_t value, uint32_t mask) const {
#ifdef __SSE2__
    const __m128i all = _mm_load_si128(reinterpret_cast<const __m128i*>(entries.data()));
    const __m128i equal = _mm_cmpeq_epi32(_mm_and_si128(all, _mm_set1_epi32(static_cast<int>(mask))),
                                          _mm_set1_epi32(static_cast<int>(value)));
    return static_cast<unsigned>(_mm_movemask_ps(_mm_castsi128_ps(equal)));
#else
    unsigned bits = 0;
    for (size_t i = 0; i < kSize; ++i) bits |= static_cast<unsigned>((entries[i] & mask) == value) << i;
    return bits;
#endif
  }
  // The entry of the first of those bits; any entry if there is none.
  uint32_t first(unsigned bits) const { return entries[std::countr_zero(bits | 1u << (kSize - 1))]; }
};

// A hash table of groups with linear probing. An entry is 0, or the number of a row in its low bits and bits
// of the row's hash above.
class Counter::Index {
 public:
  explicit Index(int bits) : memory_((size_t{1} << bits) * sizeof(uint32_t)), bits_(bits) {}

  int bits() const { return bits_; }
  size_t size() const { return size_t{1} << bits_; }
  size_t size_bytes() const { return size() * sizeof(uint32_t); }
  size_t max_rows() const { return size() / 8 * 5; }

  // The part that a loop keeps in registers.
  struct View {
    uint8_t* groups;
    size_t group_mask;  // the bits of a hash that are its group's offset in bytes
    uint32_t number_mask;

    Group* group(uint32_t hash) const { return reinterpret_cast<Group*>(groups + (hash & group_mask)); }
    // The number of the first row that may have this hash.
    uint32_t candidate(uint32_t hash) const {
      const Group* const here = group(hash);
      return here->first(here->matches(hash & ~number_mask, ~number_mask)) & number_mask;
    }
    // Among the rows that may have this hash, returns the number of the one for which is_it(number) is true.
    // If there is none, adds `number` and returns it.
    template <typename IsIt>
    uint32_t find_or_add(uint32_t hash, uint32_t number, IsIt is_it) const {
      const uint32_t start = hash & ~number_mask;
      for (size_t offset = hash & group_mask;; offset = (offset + sizeof(Group)) & group_mask) {
        Group& here = *reinterpret_cast<Group*>(groups + offset);
        for (unsigned bits = here.matches(start, ~number_mask); bits != 0; bits &= bits - 1) {
          const uint32_t entry = here.first(bits);
          if (entry != 0 && is_it(entry & number_mask)) return entry & number_mask;
        }
        if (const unsigned empty = here.matches(0, ~uint32_t{0}); empty != 0) {
          here.entries[static_cast<size_t>(std::countr_zero(empty))] = start | number;
          return number;
        }
      }
    }
  };
  View view() const {
    return {memory_.data(), size_bytes() - sizeof(Group), static_cast<uint32_t>(size() - 1)};
  }

 private:
  ZeroedMemory memory_;
  int bits_;
};

// The tables of a counter that has counted nothing.
struct Counter::Empty {
  static constexpr int kIndexBits = 12;
  static constexpr size_t kNumRows = size_t{1} << kIndexBits;

  ZeroedMemory rows{kNumRows * sizeof(Row)};
  std::unique_ptr<Index> index = std::make_unique<Index>(kIndexBits);
  std::unique_ptr<Arena> arena = std::make_unique<Arena>();
};

// Row 0 is all zeros, which is no key. The index returns it if there is no row.
inline Counter::Row* Counter::rows() const { return reinterpret_cast<Row*>(rows_.data()); }

}  // namespace tokcore
