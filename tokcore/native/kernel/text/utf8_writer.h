// DESCRIPTION
// write_utf8 writes a string of fixed-width characters, as Python keeps them, as UTF-8. Linear. Allocates
// nothing. Outside of ASCII no branch depends on a character. Thread-safe.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

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

// Whole blocks are either all ASCII, and narrowed, or written character by character: text that mixes the two
// changes from word to word, and a branch that follows it would often be wrong.
template <typename Unit>
uint8_t* write(const Unit* units, size_t num_units, uint8_t* out, bool* has_surrogate) {
  constexpr size_t kBlock = 16;
  uint32_t surrogates = 0;
  const auto put_units = [&](size_t num) {
    for (size_t i = 0; i < num; ++i) {
      const uint32_t c = units[i];
      if constexpr (sizeof(Unit) > 1) surrogates |= (c - 0xD800) < 0x800;
      out = sizeof(Unit) > 2 ? put_any(c, out) : put(c, out);
    }
  };
  const Unit* const end = units + num_units;
  for (; end - units >= static_cast<ptrdiff_t>(kBlock); units += kBlock) {
    uint64_t words[kBlock * sizeof(Unit) / 8], all = 0;
    std::memcpy(words, units, sizeof(words));
    for (const uint64_t word : words) all |= word;
    constexpr uint64_t kBeyondAscii = ~(uint64_t{0x7F} * (~uint64_t{0} / static_cast<Unit>(~Unit{0})));
    if ((all & kBeyondAscii) == 0) {
      for (size_t i = 0; i < kBlock; ++i) out[i] = static_cast<uint8_t>(units[i]);
      out += kBlock;
    } else {
      put_units(kBlock);
    }
  }
  put_units(static_cast<size_t>(end - units));
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
