#include "sentencepiece/piece_cuts.h"

#include <utility>

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
        hashes.push_back(CharacterPairs::hash(text + left, right - left, end - right));
      }
      left = right;
      right = end;
    }
  }
  pairs_.build(std::move(hashes));
}

}  // namespace tokcore
