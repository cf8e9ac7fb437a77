#include "encode/merge_lanes_template.h"

#if defined(__AVX2__) && defined(__BMI__) && defined(__LZCNT__)

#include <immintrin.h>

namespace tokcore {
namespace {

struct Vectors {
  template <size_t kSize>
  static int32_t lowest(const int32_t* candidates) {
    const auto* eight = reinterpret_cast<const __m256i*>(candidates);
    __m256i found = _mm256_load_si256(eight);
    for (size_t i = 1; i < kSize / 8; ++i) found = _mm256_min_epi32(found, _mm256_load_si256(eight + i));
    __m128i four = _mm_min_epi32(_mm256_castsi256_si128(found), _mm256_extracti128_si256(found, 1));
    four = _mm_min_epi32(four, _mm_shuffle_epi32(four, 0x4E));
    four = _mm_min_epi32(four, _mm_shuffle_epi32(four, 0xB1));
    return _mm_cvtsi128_si32(four);
  }

  template <size_t kSize>
  static void begin(const uint8_t* text, size_t size, const int32_t* of_bytes, int32_t* candidates,
                    uint32_t* symbols) {
    const __m256i last = _mm256_set1_epi32(static_cast<int32_t>(size) - 1);
    __m256i position = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    for (size_t i = 0; i < kSize; i += 8, position = _mm256_add_epi32(position, _mm256_set1_epi32(8))) {
      const __m256i left = eight_bytes(text + i), right = eight_bytes(text + i + 1);
      const __m256i pairs = _mm256_or_si256(_mm256_slli_epi32(left, 8), right);
      const __m256i ranks = _mm256_i32gather_epi32(of_bytes, pairs, 4);
      const __m256i found = _mm256_or_si256(_mm256_slli_epi32(ranks, kPositionBits), position);
      const __m256i inside = _mm256_cmpgt_epi32(last, position);
      _mm256_store_si256(reinterpret_cast<__m256i*>(candidates + i),
                         _mm256_blendv_epi8(_mm256_set1_epi32(kNoCandidate), found, inside));
      _mm256_store_si256(reinterpret_cast<__m256i*>(symbols + i), left);
    }
  }

  static __m256i eight_bytes(const uint8_t* text) {
    return _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(text)));
  }
};

}  // namespace

void merge_in_lanes_avx2(const MergeTables& tables, Piece* const* pieces, size_t num_pieces) {
  merge_by_size<Vectors>(tables, pieces, num_pieces);
}

}  // namespace tokcore

#else  // another processor, or a compiler that was not asked for these instructions

namespace tokcore {

void merge_in_lanes_avx2(const MergeTables& tables, Piece* const* pieces, size_t num_pieces) {
  merge_in_lanes_portable(tables, pieces, num_pieces);
}

}  // namespace tokcore

#endif
