// DESCRIPTION
// PieceTable adds up equal pieces of words, in memory of a fixed size. Not thread-safe.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "learn/words.h"
#include "memory/buffer.h"
#include "memory/hash.h"

namespace tokcore {

class PieceTable {
 public:
  // max_pieces: below 2^32 - 1.
  PieceTable(size_t max_pieces, size_t max_symbols)
      : max_pieces_(max_pieces),
        max_symbols_(max_symbols),
        slots_(std::bit_ceil(max_pieces + max_pieces / 2 + 1)) {
    symbols_.reserve(max_symbols);
    counts_.reserve(max_pieces);
    offsets_.reserve(max_pieces + 1);
    offsets_.push_back(0);
  }

  // False if there is no room for it.
  bool add(const uint32_t* symbols, size_t size, uint64_t count) {
    const auto* const bytes = reinterpret_cast<const uint8_t*>(symbols);
    const size_t num_bytes = size * sizeof *symbols;
    const uint64_t hash = hash_bytes(bytes, num_bytes, bytes + num_bytes);
    const auto tag = static_cast<uint32_t>(hash >> 32);
    size_t at = hash & (slots_.size() - 1);
    for (; slots_[at].number != 0; at = (at + 1) & (slots_.size() - 1)) {
      const size_t piece = slots_[at].number - 1;
      if (slots_[at].tag == tag && is_equal(piece, symbols, size)) {
        counts_[piece] += count;
        return true;
      }
    }
    if (counts_.size() == max_pieces_ || size > max_symbols_ - symbols_.size()) return false;
    symbols_.insert(symbols_.end(), symbols, symbols + size);
    offsets_.push_back(static_cast<int64_t>(symbols_.size()));
    counts_.push_back(count);
    slots_[at] = {tag, static_cast<uint32_t>(counts_.size())};
    return true;
  }
  // Gives up what adding needs, and keeps the pieces.
  void close() { std::vector<Slot>().swap(slots_); }

  SymbolWords words() const { return {symbols_.data(), offsets_.data(), counts_.data(), counts_.size()}; }
  bool is_fuller_than(size_t quarters) const {
    return counts_.size() * 4 > max_pieces_ * quarters || symbols_.size() * 4 > max_symbols_ * quarters;
  }

 private:
  struct Slot {
    uint32_t tag;     // of the piece's hash
    uint32_t number;  // of the piece, from 1; 0: free
  };

  bool is_equal(size_t piece, const uint32_t* symbols, size_t size) const {
    const auto begin = static_cast<size_t>(offsets_[piece]), end = static_cast<size_t>(offsets_[piece + 1]);
    return end - begin == size && std::memcmp(&symbols_[begin], symbols, size * sizeof *symbols) == 0;
  }

  size_t max_pieces_;
  size_t max_symbols_;
  std::vector<Slot> slots_;
  Buffer<uint32_t> symbols_;
  Buffer<int64_t> offsets_;
  Buffer<uint64_t> counts_;
};

}  // namespace tokcore
