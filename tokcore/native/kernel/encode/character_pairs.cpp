#include "encode/character_pairs.h"

#include <algorithm>
#include <bit>

namespace tokcore {

void CharacterPairs::build(std::vector<uint64_t> hashes) {
  constexpr size_t kBitsPerPair = 16;
  std::sort(hashes.begin(), hashes.end());
  hashes.erase(std::unique(hashes.begin(), hashes.end()), hashes.end());
  const size_t num_bits = std::bit_ceil(std::max<size_t>(hashes.size() * kBitsPerPair, 4096));
  shift_ = 64 - static_cast<unsigned>(std::countr_zero(num_bits));
  bits_.assign(num_bits / 64, 0);
  for (const uint64_t one : hashes) {
    const uint64_t bit = one >> shift_;
    bits_[bit / 64] |= uint64_t{1} << bit % 64;
  }
}

}  // namespace tokcore
