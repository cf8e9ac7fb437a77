// DESCRIPTION
// write_utf8 writes a string of fixed-width characters, as Python keeps them, as UTF-8. Linear. Allocates
// nothing. Outside of ASCII no branch depends on a character. Thread-safe.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

namespace tokcore {

enum class Encoding : uint8_t { kUtf8, kLatin1, kUcs2, kUcs4 };  // kUtf8: bytes, copied as they are

struct StringView {
  const void* data;
  size_t num_units;  // of 1, 1, 2 or 4 bytes
  Encoding encoding;
};

// Bytes that write_utf8 may write after the end that it returns.
constexpr size_t kUtf8Slack = 4;

// An upper bound of the string's bytes as UTF-8.
inline size_t max_utf8_bytes(const StringView& string) {
  constexpr size_t kBytesPerUnit[] = {1, 2, 3, 4};
  return string.num_units * kBytesPerUnit[static_cast<size_t>(string.encoding)];
}

// About how many bytes it has: most characters beyond ASCII are of scripts with two or three.
inline size_t about_utf8_bytes(const StringView& string) {
  constexpr size_t kHalvesPerUnit[] = {2, 2, 4, 6};
  return string.num_units * kHalvesPerUnit[static_cast<size_t>(string.encoding)] / 2;
}

namespace utf8 {

// Writes one character and returns its end. Always stores four bytes: a store costs less than a branch that
// is often mispredicted.
inline uint8_t* put(uint32_t c, uint8_t* out) {
  const uint32_t two = 0x80C0 | (c >> 6) | ((c & 0x3F) << 8);
  const uint32_t three = 0x8080E0 | (c >> 12) | (((c >> 6) & 0x3F) << 8) | ((c & 0x3F) << 16);
  uint32_t bytes = c < 0x800 ? two : three;
  bytes = c < 0x80 ? c : bytes;
  if constexpr (std::endian::native == std::endian::big) bytes = __builtin_bswap32(bytes);
  std::memcpy(out, &bytes, sizeof(bytes));
  return out + 1 + (c >= 0x80) + (c >= 0x800);
}

// The same for any character up to U+10FFFF.
inline uint8_t* put_any(uint32_t c, uint8_t* out) {
  if (c < 0x10000) return put(c, out);
  const uint8_t bytes[] = {
      static_cast<uint8_t>(0xF0 | (c >> 18)), static_cast<uint8_t>(0x80 | ((c >> 12) & 0x3F)),
      static_cast<uint8_t>(0x80 | ((c >> 6) & 0x3F)), static_cast<uint8_t>(0x80 | (c & 0x3F))};
  std::memcpy(out, bytes, sizeof(bytes));
  return out + 4;
}

constexpr ptrdiff_t kBlock = 16;  // units

// Writes a block as if all of it were ASCII. Returns a bit for each unit that is not: its byte means nothing.
#ifdef __SSE2__
inline uint32_t put_ascii(const uint8_t* units, uint8_t* out) {
  const __m128i all = _mm_loadu_si128(reinterpret_cast<const __m128i*>(units));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(out), all);
  return static_cast<uint32_t>(_mm_movemask_epi8(all));
}

inline uint32_t put_ascii(const uint16_t* units, uint8_t* out) {
  const auto* blocks = reinterpret_cast<const __m128i*>(units);
  const __m128i low = _mm_loadu_si128(blocks), high = _mm_loadu_si128(blocks + 1);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(out), _mm_packus_epi16(low, high));
  const __m128i beyond = _mm_set1_epi16(~0x7F), none = _mm_setzero_si128();
  const __m128i is_ascii = _mm_packs_epi16(_mm_cmpeq_epi16(_mm_and_si128(low, beyond), none),
                                           _mm_cmpeq_epi16(_mm_and_si128(high, beyond), none));
  return static_cast<uint32_t>(_mm_movemask_epi8(is_ascii)) ^ 0xFFFF;
}
#endif

template <typename Unit>
uint32_t put_ascii(const Unit* units, uint8_t* out) {
  uint32_t beyond = 0;
  for (ptrdiff_t i = 0; i < kBlock; ++i) {
    out[i] = static_cast<uint8_t>(units[i]);
    beyond |= uint32_t{units[i] > 0x7F} << i;
  }
  return beyond;
}

// A block with one character beyond ASCII, such as a quotation mark, is written up to it. One with more is
// written character by character: text that mixes the two changes from word to word, and a branch that
// follows it would often be wrong.
template <typename Unit>
uint8_t* write(const Unit* units, size_t num_units, uint8_t* out, bool* has_surrogate) {
  uint32_t surrogates = 0;
  const Unit* const end = units + num_units;
  const auto put_units = [&](ptrdiff_t num) {
    for (const Unit* const last = units + num; units != last; ++units) {
      const uint32_t c = *units;
      if constexpr (sizeof(Unit) > 1) surrogates |= (c - 0xD800) < 0x800;
      out = sizeof(Unit) > 2 ? put_any(c, out) : put(c, out);
    }
  };
  while (end - units >= kBlock) {
    const uint32_t beyond = put_ascii(units, out);
    if (beyond == 0) {
      units += kBlock;
      out += kBlock;
    } else if ((beyond & (beyond - 1)) == 0) {
      const int num_ascii = std::countr_zero(beyond);
      units += num_ascii;
      out += num_ascii;
      put_units(1);
    } else {
      put_units(kBlock);
    }
  }
  put_units(end - units);
  *has_surrogate = surrogates != 0;
  return out;
}

}  // namespace utf8

// Writes the string to `out`, which has room for max_utf8_bytes and kUtf8Slack more. Returns the end, or
// nullptr if the string has a surrogate, which UTF-8 cannot spell.
inline uint8_t* write_utf8(const StringView& string, uint8_t* out) {
  bool has_surrogate = false;
  switch (string.encoding) {
    case Encoding::kUtf8:
      if (string.num_units != 0) std::memcpy(out, string.data, string.num_units);
      return out + string.num_units;
    case Encoding::kLatin1:
      return utf8::write(static_cast<const uint8_t*>(string.data), string.num_units, out, &has_surrogate);
    case Encoding::kUcs2:
      out = utf8::write(static_cast<const uint16_t*>(string.data), string.num_units, out, &has_surrogate);
      break;
    case Encoding::kUcs4:
      out = utf8::write(static_cast<const uint32_t*>(string.data), string.num_units, out, &has_surrogate);
      break;
  }
  return has_surrogate ? nullptr : out;
}

}  // namespace tokcore
