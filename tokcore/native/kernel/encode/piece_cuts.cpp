#include "encode/piece_cuts.h"

#include <utility>

namespace tokcore {

void PieceCuts::build(const PieceVocabulary& vocabulary) {
  std::vector<uint64_t> hashes;
  for (uint32_t piece = 0; piece < vocabulary.num_pieces(); ++piece) {
    const auto* const text = reinterpret_cast<const uint8_t*>(vocabulary.text(piece).data());
    const size_t size = vocabulary.text(piece).size();
    size_t width = character_bytes(text, size);
    uint32_t left = CharacterPairs::pack(text, width);
    for (size_t at = width; at < size; at += width) {
      width = character_bytes(text + at, size - at);
      const uint32_t right = CharacterPairs::pack(text + at, width);
      if ((left | right) < 0x80) {
        ascii_[left][right / 64] |= uint64_t{1} << right % 64;
      } else {
        hashes.push_back(CharacterPairs::hash(left, right));
      }
      left = right;
    }
  }
  pairs_.build(std::move(hashes));
}

}  // namespace tokcore
