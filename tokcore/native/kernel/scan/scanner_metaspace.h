// DESCRIPTION
// The pattern "metaspace": a pre-token begins at each U+2581, which SentencePiece puts where spaces are. Its
// contract is Scanner's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

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

// The same, where the 18 bytes after the text may be read, too.
inline size_t find_space_symbol_padded(const uint8_t* text, size_t size, size_t at) {
#if defined(__SSE2__)
  const auto load = [&](size_t from) {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(text + from));
  };
  const auto repeat = [](uint8_t byte) { return _mm_set1_epi8(static_cast<char>(byte)); };
  for (; at < size; at += 16) {
    const __m128i first = _mm_cmpeq_epi8(load(at), repeat(kSpaceSymbol[0]));
    const __m128i second = _mm_cmpeq_epi8(load(at + 1), repeat(kSpaceSymbol[1]));
    const __m128i third = _mm_cmpeq_epi8(load(at + 2), repeat(kSpaceSymbol[2]));
    const int found = _mm_movemask_epi8(_mm_and_si128(_mm_and_si128(first, second), third));
    if (found == 0) continue;
    at += static_cast<size_t>(__builtin_ctz(static_cast<unsigned>(found)));
    return at + sizeof(kSpaceSymbol) <= size ? at : size;
  }
  return size;
#else
  return find_space_symbol(text, size, at);
#endif
}

size_t scan_metaspace(const uint8_t* text, size_t size, size_t begin, uint64_t* ends, size_t capacity);

}  // namespace tokcore
