#include "scan/scanner_vectors.h"

#if defined(__AVX512BW__) && defined(__AVX512VBMI2__) && defined(__BMI__) && defined(__LZCNT__)

#include <immintrin.h>

namespace tokcore {
namespace {

struct Word {
  __m512i bytes;

  static Word load(const uint8_t* text) { return {_mm512_loadu_si512(text)}; }
  static Word repeat(uint64_t row) { return {_mm512_set1_epi64(static_cast<int64_t>(row))}; }

  template <int bit>
  uint64_t mask() const {
    return _mm512_test_epi8_mask(bytes, _mm512_set1_epi8(static_cast<char>(1 << bit)));
  }
  uint64_t at_least(uint8_t least) const {
    return _mm512_cmpge_epu8_mask(bytes, _mm512_set1_epi8(static_cast<char>(least)));
  }
  uint64_t equal(uint8_t value) const {
    return _mm512_cmpeq_epi8_mask(bytes, _mm512_set1_epi8(static_cast<char>(value)));
  }

  Word shuffle(const Word& places) const { return {_mm512_shuffle_epi8(bytes, places.bytes)}; }
  Word bits_3_to_5() const { return {_mm512_and_si512(_mm512_srli_epi16(bytes, 3), _mm512_set1_epi8(7))}; }
  Word power_of_bits_0_to_2() const {
    const __m512i powers = _mm512_set1_epi64(static_cast<int64_t>(0x8040201008040201u));
    return {_mm512_shuffle_epi8(powers, _mm512_and_si512(bytes, _mm512_set1_epi8(7)))};
  }
};

__m512i four_times(const uint8_t* table) {
  return _mm512_broadcast_i32x4(_mm_loadu_si128(reinterpret_cast<const __m128i*>(table)));
}

Word look_up(const Word& word, const uint8_t (&by_low)[16], const uint8_t (&by_high)[16]) {
  const __m512i nibble = _mm512_set1_epi8(0x0F);
  const __m512i low = _mm512_and_si512(word.bytes, nibble);
  const __m512i high = _mm512_and_si512(_mm512_srli_epi16(word.bytes, 4), nibble);
  return {_mm512_and_si512(_mm512_shuffle_epi8(four_times(by_low), low),
                           _mm512_shuffle_epi8(four_times(by_high), high))};
}

uint64_t common(const Word& a, const Word& b) { return _mm512_test_epi8_mask(a.bytes, b.bytes); }

inline size_t write_ends(uint64_t bits, uint64_t base, uint64_t* ends) {
  alignas(64) static constexpr uint8_t kPositions[64] = {
      0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21,
      22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43,
      44, 45, 46, 47, 48, 49, 50, 51, 52, 53, 54, 55, 56, 57, 58, 59, 60, 61, 62, 63};
  alignas(64) uint8_t positions[64];
  _mm512_store_si512(positions, _mm512_maskz_compress_epi8(bits, _mm512_load_si512(kPositions)));
  const size_t count = static_cast<size_t>(_mm_popcnt_u64(bits));
  const __m512i first = _mm512_set1_epi64(static_cast<int64_t>(base));
  for (size_t i = 0; i < count; i += 8) {
    const __m128i eight = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(positions + i));
    _mm512_storeu_si512(ends + i, _mm512_add_epi64(first, _mm512_cvtepu8_epi64(eight)));
  }
  return count;
}

}  // namespace
}  // namespace tokcore

#include "scan/scanner_wide.h"

namespace tokcore {

WideScan* const kScanAvx512 = scan_any;

}  // namespace tokcore

#else  // another processor, or a compiler that was not asked for these instructions

namespace tokcore {

WideScan* const kScanAvx512 = nullptr;

}  // namespace tokcore

#endif
