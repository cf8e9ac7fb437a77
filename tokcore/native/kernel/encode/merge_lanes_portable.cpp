#include "encode/merge_lanes_template.h"

namespace tokcore {
namespace {

struct Vectors {
  template <size_t kSize>
  static int32_t lowest(const int32_t* candidates) {
    int32_t four[4] = {candidates[0], candidates[1], candidates[2], candidates[3]};
    for (size_t i = 4; i < kSize; i += 4) {
      for (size_t k = 0; k < 4; ++k) four[k] = candidates[i + k] < four[k] ? candidates[i + k] : four[k];
    }
    const int32_t a = four[0] < four[1] ? four[0] : four[1], b = four[2] < four[3] ? four[2] : four[3];
    return a < b ? a : b;
  }

  template <size_t kSize>
  static void begin(const uint8_t* text, size_t size, const int32_t* of_bytes, int32_t* candidates,
                    uint32_t* symbols) {
    for (size_t i = 0; i < kSize; ++i) {
      symbols[i] = text[i];
      const int32_t rank = of_bytes[static_cast<size_t>(text[i]) << 8 | text[i + 1]];
      candidates[i] = i + 1 < size ? candidate(rank, i) : kNoCandidate;
    }
  }
};

}  // namespace

void merge_in_lanes_portable(const MergeTables& tables, Piece* const* pieces, size_t num_pieces) {
  merge_by_size<Vectors>(tables, pieces, num_pieces);
}

}  // namespace tokcore
