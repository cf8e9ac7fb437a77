#include "encode/cuts.h"

#include <utility>

namespace tokcore {

void Cuts::build(const uint8_t* data, const uint64_t* starts, size_t num_tokens) {
  std::vector<uint64_t> hashes;
  borders_.assign(size_t{256} * 256 / 64, 0);
  for (size_t i = 0; i < num_tokens; ++i) {
    const uint8_t* token = data + starts[i];
    const size_t size = starts[i + 1] - starts[i];
    for (size_t right = 1; right < size; ++right) {
      // Only borders between characters outside of ASCII: a last byte and a first byte.
      if (token[right - 1] < 0x80 || token[right] < 0xC0) continue;
      size_t left_size = 0;
      for (size_t back = 2; back <= 4 && back <= right && left_size == 0; ++back) {
        if (character_size(token + right - back, back) == back) left_size = back;
      }
      const size_t right_size = character_size(token + right, size - right);
      if (left_size > 1 && right_size > 1) {
        hashes.push_back(CharacterPairs::hash(token + right - left_size, left_size, right_size));
      } else {
        const size_t at = border(token + right);
        borders_[at / 64] |= uint64_t{1} << at % 64;
      }
    }
  }
  pairs_.build(std::move(hashes));
}

}  // namespace tokcore
