#include "scan/scanner_vectors.h"

#if defined(__AVX2__) && defined(__BMI__) && defined(__LZCNT__)

#include <immintrin.h>

namespace tokcore {
namespace {

struct Word {
  __m256i low, high;

  static Word load(const uint8_t* bytes) {
    return {_mm256_loadu_si256(reinterpret_cast<const __m256i*>(bytes)),
            _mm256_loadu_si256(reinterpret_cast<const __m256i*>(bytes + 32))};
  }
  static Word repeat(uint64_t row) {
    const __m256i bytes = _mm256_set1_epi64x(static_cast<int64_t>(row));
    return {bytes, bytes};
  }

  template <int bit>
  uint64_t mask() const {
    return signs([](__m256i bytes) { return _mm256_slli_epi16(bytes, 7 - bit); });
  }
  uint64_t at_least(uint8_t least) const {
    const __m256i bound = _mm256_set1_epi8(static_cast<char>(least));
    return signs([=](__m256i bytes) { return _mm256_cmpeq_epi8(_mm256_max_epu8(bytes, bound), bytes); });
  }
  uint64_t equal(uint8_t value) const {
    const __m256i wanted = _mm256_set1_epi8(static_cast<char>(value));
    return signs([=](__m256i bytes) { return _mm256_cmpeq_epi8(bytes, wanted); });
  }

  Word shuffle(const Word& places) const {
    return {_mm256_shuffle_epi8(low, places.low), _mm256_shuffle_epi8(high, places.high)};
  }
  Word bits_3_to_5() const {
    return map(
        [](__m256i bytes) { return _mm256_and_si256(_mm256_srli_epi16(bytes, 3), _mm256_set1_epi8(7)); });
  }
  Word power_of_bits_0_to_2() const {
    const __m256i powers = _mm256_set1_epi64x(static_cast<int64_t>(0x8040201008040201u));
    return map([=](__m256i bytes) {
      return _mm256_shuffle_epi8(powers, _mm256_and_si256(bytes, _mm256_set1_epi8(7)));
    });
  }

  template <typename Function>
  Word map(Function function) const {
    return {function(low), function(high)};
  }
  // The highest bit of each byte of map(function).
  template <typename Function>
  uint64_t signs(Function function) const {
    const Word made = map(function);
    return static_cast<uint32_t>(_mm256_movemask_epi8(made.low)) |
           static_cast<uint64_t>(static_cast<uint32_t>(_mm256_movemask_epi8(made.high))) << 32;
  }
};

__m256i twice(const uint8_t* table) {
  return _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(table)));
}

Word look_up(const Word& word, const uint8_t (&by_low)[16], const uint8_t (&by_high)[16]) {
  const __m256i low_table = twice(by_low), high_table = twice(by_high), nibble = _mm256_set1_epi8(0x0F);
  return word.map([=](__m256i bytes) {
    const __m256i low = _mm256_and_si256(bytes, nibble);
    const __m256i high = _mm256_and_si256(_mm256_srli_epi16(bytes, 4), nibble);
    return _mm256_and_si256(_mm256_shuffle_epi8(low_table, low), _mm256_shuffle_epi8(high_table, high));
  });
}

uint64_t common(const Word& a, const Word& b) {
  const auto none = [](__m256i x, __m256i y) {
    return _mm256_cmpeq_epi8(_mm256_and_si256(x, y), _mm256_setzero_si256());
  };
  return ~Word{none(a.low, b.low), none(a.high, b.high)}.mask<7>();
}

inline size_t write_ends(uint64_t bits, uint64_t base, uint64_t* ends) {
  const size_t count = static_cast<size_t>(_mm_popcnt_u64(bits));
  for (size_t i = 0; i < count; i += 8) {
    for (size_t k = 0; k < 8; ++k) {
      ends[i + k] = base + _tzcnt_u64(bits);
      bits = _blsr_u64(bits);
    }
  }
  return count;
}

}  // namespace
}  // namespace tokcore

#include "scan/scanner_wide.h"

namespace tokcore {

WideScan* const kScanAvx2 = scan_any;

}  // namespace tokcore

#else  // another processor, or a compiler that was not asked for these instructions

namespace tokcore {

WideScan* const kScanAvx2 = nullptr;

}  // namespace tokcore

#endif
