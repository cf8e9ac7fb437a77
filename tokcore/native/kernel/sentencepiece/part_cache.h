// DESCRIPTION
// PartCache remembers the tokens of parts of texts that SentencePiece's models encode: words, and what is
// left of long ones that were cut. Tokens are the numbers of PieceVocabulary. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "encode/pretoken_cache.h"
#include "scan/scanner_metaspace.h"

namespace tokcore {

// Must not move once it is set, as its text may lie in it.
struct Part {
  // Where the cache keeps what it becomes.
  enum class Kept : uint8_t { kShort, kLong, kNot };

  const uint8_t* text;
  size_t size;
  PretokenCache::Key key;
  PretokenCache::Ids known;
  Kept kept;
  bool begins_word;
  bool is_plain;  // text begins with a blank, which counts as U+2581
  uint8_t spelled[PretokenCache::kMaxShortBytes + sizeof(kSpaceSymbol)];

  // Gives a plain word its normalized text.
  void spell() {
    if (!is_plain) return;
    std::memcpy(spelled, kSpaceSymbol, sizeof(kSpaceSymbol));
    std::memcpy(spelled + sizeof(kSpaceSymbol), text + 1, size - sizeof(kSpaceSymbol));
    text = spelled;
    is_plain = false;
  }
};

class PartCache {
 public:
  explicit PartCache(size_t budget_bytes) : cache_(budget_bytes) {}

  size_t budget_bytes() const { return cache_.budget_bytes(); }
  bool keeps() const { return budget_bytes() >= PretokenCache::kMinBudgetBytes; }

  // The most bytes of a part that is found quickly.
  static constexpr size_t kMaxShortBytes = PretokenCache::kMaxShortBytes + 2;

  // text: with 16 bytes after it that may be read. In place: a processor waits for what was written in small
  // parts and is read in large ones.
  void set(Part* part, const uint8_t* text, size_t size, bool begins_word) {
    set_unkept(part, text, size, begins_word);
    // The last byte of U+2581 stands for all of it: no text begins with such a byte.
    const size_t skipped = is_space_symbol_at(text, size, 0) ? 2 : 0;
    if (size - skipped <= PretokenCache::kMaxShortBytes && *text != kSpaceSymbol[2]) {
      part->key = cache_.entries().key_inside(text + skipped, size - skipped);
      part->kept = Part::Kept::kShort;
      cache_.entries().prefetch(part->key);
    } else if (size <= PretokenCache::kMaxLongBytes) {
      // Of the long part before this one: its place in the table has come by now, and says where its record
      // is.
      cache_.prefetch_long(last_long_);
      part->key = last_long_ = cache_.long_key(text, size, text + size);
      part->kept = Part::Kept::kLong;
    }
  }

  // The same for a part that is never looked up.
  static void set_unkept(Part* part, const uint8_t* text, size_t size, bool begins_word) {
    part->text = text;
    part->size = size;
    part->kept = Part::Kept::kNot;
    part->begins_word = begins_word;
    part->is_plain = false;
  }

  // Of a plain word (see PieceNormalizer) that set_plain() takes, at most.
  static constexpr size_t kMaxPlainBytes = PretokenCache::kMaxShortBytes;

  // text: with 16 bytes that may be read. width: of a plain word.
  void set_plain(Part* part, const uint8_t* text, size_t width) const {
    part->text = text;
    part->size = width - 1 + sizeof(kSpaceSymbol);
    part->kept = Part::Kept::kShort;
    part->begins_word = true;
    part->is_plain = true;
    Bytes16 bytes;
    std::memcpy(&bytes, text, sizeof(bytes));
    bytes ^= Bytes16{little_endian(uint64_t{' '} ^ kSpaceSymbol[2]), 0};
    part->key = cache_.entries().key_of(bytes, width);
    cache_.entries().prefetch(part->key);
  }

  // May be copied four at a time.
  PretokenCache::Ids find(const Part& part) const {
    if (part.kept == Part::Kept::kShort) [[likely]] {
      const PretokenCache::Found found = cache_.entries().find(part.key);
      if (found.entry == nullptr) return {nullptr, 0};
      if (found.count <= PretokenCache::kMaxShortIds) return {found.entry->ids, found.count};
      const PretokenCache::Ids known = cache_.in_ring(*found.entry);
      __builtin_prefetch(known.ids);  // read when all parts are found
      return known;
    }
    if (part.kept == Part::Kept::kNot) return {nullptr, 0};
    return cache_.find_long(part.text, part.size, part.key);
  }

  void remember(const Part& part, const uint32_t* numbers, size_t count) {
    const auto* const ids = reinterpret_cast<const int32_t*>(numbers);
    if (part.kept == Part::Kept::kShort) {
      cache_.insert(part.key, ids, count);
    } else if (part.kept == Part::Kept::kLong) {
      cache_.insert_long(part.text, part.size, part.key, ids, count);
    }
  }

 private:
  PretokenCache cache_;
  // Of the long part that was set last; at first a hash that no place has, as free places have 0.
  PretokenCache::Key last_long_{Bytes16{1, 0}, 0};
};

}  // namespace tokcore
