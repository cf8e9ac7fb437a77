// DESCRIPTION
// The pattern "metaspace": a pre-token begins at each U+2581, which SentencePiece puts where spaces are. Its
// contract is Scanner's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace tokcore {

inline constexpr uint8_t kSpaceSymbol[] = {0xE2, 0x96, 0x81};  // U+2581

inline bool is_space_symbol_at(const uint8_t* text, size_t size, size_t at) {
  return size - at >= sizeof(kSpaceSymbol) && std::memcmp(text + at, kSpaceSymbol, sizeof(kSpaceSymbol)) == 0;
}

// Where the next one begins, from `at` on, or size.
inline size_t find_space_symbol(const uint8_t* text, size_t size, size_t at) {
  while (at < size) {
    const void* found = std::memchr(text + at, kSpaceSymbol[0], size - at);
    if (found == nullptr) return size;
    at = static_cast<size_t>(static_cast<const uint8_t*>(found) - text);
    if (is_space_symbol_at(text, size, at)) return at;
    ++at;
  }
  return size;
}

size_t scan_metaspace(const uint8_t* text, size_t size, size_t begin, uint64_t* ends, size_t capacity);

}  // namespace tokcore
