#include "encode/piece_cuts.h"

#include <algorithm>
#include <bit>

namespace tokcore {

void PieceCuts::build(const PieceVocabulary& vocabulary) {
  std::vector<uint64_t> hashes;
  for (uint32_t piece = 0; piece < vocabulary.num_pieces(); ++piece) {
    const auto* const text = reinterpret_cast<const uint8_t*>(vocabulary.text(piece).data());
    const size_t size = vocabulary.text(piece).size();
    size_t left = 0, right = character_bytes(text, size);
    while (right < size) {
      const size_t end = right + character_bytes(text + right, size - right);
      if ((text[left] | text[right]) < 0x80) {
        ascii_[text[left]][text[right] / 64] |= uint64_t{1} << text[right] % 64;
      } else {
        hashes.push_back(hash(text, left, right, end));
      }
      left = right;
      right = end;
    }
  }
  std::sort(hashes.begin(), hashes.end());
  hashes.erase(std::unique(hashes.begin(), hashes.end()), hashes.end());
  const size_t num_bits = std::bit_ceil(std::max<size_t>(hashes.size() * kBitsPerPair, 4096));
  shift_ = 64 - static_cast<unsigned>(std::countr_zero(num_bits));
  pairs_.assign(num_bits / 64, 0);
  for (const uint64_t one : hashes) {
    const uint64_t pair = one >> shift_;
    pairs_[pair / 64] |= uint64_t{1} << pair % 64;
  }
}

}  // namespace tokcore
