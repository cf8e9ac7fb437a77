#include "shards/varints.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "memory/hash.h"

namespace tokcore {
namespace {

constexpr uint64_t kHighBits = 0x8080808080808080;
constexpr size_t kWordBytes = sizeof(uint64_t);
constexpr size_t kMostBytes = 9;  // of a positive int64

constexpr size_t measure(uint32_t value) { return (static_cast<size_t>(std::bit_width(value | 1)) + 6) / 7; }

// Seven bits of value in each byte.
constexpr uint64_t spread(uint64_t value) {
  return (value & 0x7f) | (value & 0x3f80) << 1 | (value & 0x1fc000) << 2 | (value & 0xfe00000) << 3 |
         (value & 0xf0000000) << 4;
}

// The way back, from eight bytes whose high bits are clear.
constexpr uint64_t gather(uint64_t bytes) {
  bytes = (bytes & 0x007f007f007f007f) | (bytes & 0x7f007f007f007f00) >> 1;
  bytes = (bytes & 0x00003fff00003fff) | (bytes & 0x3fff00003fff0000) >> 2;
  return (bytes & 0x000000000fffffff) | (bytes & 0x0fffffff00000000) >> 4;
}

uint64_t load(const uint8_t* bytes) {
  uint64_t word;
  std::memcpy(&word, bytes, kWordBytes);
  return little_endian(word);
}

void store(uint64_t word, uint8_t* bytes) {
  word = little_endian(word);
  std::memcpy(bytes, &word, kWordBytes);
}

// One integer, byte by byte. Its last byte must be there.
VarintError read_slowly(const uint8_t** at, int64_t* value) {
  uint64_t sum = 0;
  for (size_t i = 0; i < kMostBytes; ++i) {
    const uint8_t byte = *(*at)++;
    sum |= static_cast<uint64_t>(byte & 0x7f) << (7 * i);
    if (byte < 0x80) {
      *value = static_cast<int64_t>(sum);
      return VarintError::kNone;
    }
  }
  return VarintError::kTooLong;
}

}  // namespace

VarintError pack_varints(const int32_t* values, const int64_t* offsets, size_t num_parts,
                         Buffer<uint8_t>* data, Buffer<int64_t>* bounds) {
  bounds->resize(num_parts + 1);
  size_t size = 0;
  int32_t signs = 0;
  for (size_t part = 0; part < num_parts; ++part) {
    (*bounds)[part] = static_cast<int64_t>(size);
    for (int64_t i = offsets[part]; i < offsets[part + 1]; ++i) {
      // Each comparison is a vector's; the count of leading zeros is not, on most processors.
      const auto value = static_cast<uint32_t>(values[i]);
      size += 1 + (value >= 1u << 7) + (value >= 1u << 14) + (value >= 1u << 21) + (value >= 1u << 28);
      signs |= values[i];
    }
  }
  (*bounds)[num_parts] = static_cast<int64_t>(size);
  if (signs < 0) return VarintError::kNegative;
  // Each store writes a whole word.
  data->resize(size + kWordBytes);
  uint8_t* at = data->data();
  for (int64_t i = offsets[0]; i < offsets[num_parts]; ++i) {
    const auto value = static_cast<uint32_t>(values[i]);
    const size_t width = measure(value);
    store(spread(value) | (kHighBits & ((uint64_t{1} << (8 * (width - 1))) - 1)), at);
    at += width;
  }
  data->resize(size);
  return VarintError::kNone;
}

VarintError unpack_varints(const uint8_t* data, const int64_t* bounds, size_t num_parts,
                           Buffer<int64_t>* values, Buffer<int64_t>* counts) {
  const uint8_t *first = data + bounds[0], *last = data + bounds[num_parts];
  // Every integer has one byte without the high bit.
  values->resize(static_cast<size_t>(std::count_if(first, last, [](uint8_t byte) { return byte < 0x80; })));
  counts->resize(num_parts);
  int64_t* value = values->data();
  const uint8_t* at = first;
  for (size_t part = 0; part < num_parts; ++part) {
    const uint8_t* const end = data + bounds[part + 1];
    const int64_t* const before = value;
    if (at != end && end[-1] >= 0x80) return VarintError::kCutOff;
    while (at != end) {
      if (static_cast<size_t>(end - at) >= kWordBytes) {
        const uint64_t word = load(at);
        if (const uint64_t lasts = ~word & kHighBits; lasts != 0) {
          const uint64_t own = lasts ^ (lasts - 1);  // up to the last byte's high bit
          *value++ = static_cast<int64_t>(gather(word & own & ~kHighBits));
          at += (static_cast<size_t>(std::countr_zero(lasts)) + 1) / 8;
          continue;
        }
      }
      if (const VarintError error = read_slowly(&at, value); error != VarintError::kNone) return error;
      ++value;
    }
    (*counts)[part] = value - before;
  }
  return VarintError::kNone;
}

}  // namespace tokcore
