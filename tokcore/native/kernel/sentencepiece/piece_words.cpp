#include "sentencepiece/piece_words.h"

#include <algorithm>
#include <limits>

#include "scan/character.h"
#include "sentencepiece/piece_trie.h"

namespace tokcore {
namespace {

constexpr size_t kNumCodePoints = 0x110000;
constexpr uint32_t kNull = 0, kBoundary = 0x1F, kBlank = 0x20, kReservedMark = 0x2585;
constexpr uint32_t kNoSymbol = UINT32_MAX;

class WordReader {
 public:
  explicit WordReader(const std::vector<std::string_view>& reserved) {
    std::vector<PieceTrie::Entry> entries;
    for (const std::string_view text : reserved) {
      entries.push_back({text, static_cast<uint32_t>(entries.size()), 0});
      begins_[static_cast<uint8_t>(text[0])] = true;
    }
    trie_.build(std::move(entries));
  }

  // Calls action(code point) for each character; a reserved text is one kBoundary.
  template <typename Action>
  void read(const uint8_t* text, size_t size, Action action) const {
    for (size_t at = 0; at < size;) {
      if (begins_[text[at]]) {
        if (const size_t found = trie_.longest(text + at, size - at, SIZE_MAX).first; found != 0) {
          action(kBoundary);
          at += found;
          continue;
        }
      }
      const Character c = character_at(text, size, at);
      action(c.code_point);
      at += c.size;
    }
  }

 private:
  PieceTrie trie_;
  bool begins_[256] = {};
};

bool takes_part(const uint8_t* text, size_t size) {
  for (size_t at = 0; at < size;) {
    const Character c = character_at(text, size, at);
    if (c.code_point == kNoCodePoint || c.code_point == kReservedMark) return false;
    at += c.size;
  }
  return true;
}

// SentencePiece leaves these out when it counts characters.
bool is_counted(uint32_t c) { return c != kNull && c != kBlank; }

struct CharacterCount {
  uint32_t code_point;
  uint64_t count;
};

// The most frequent characters, until their share of `total` reaches the coverage. The shares are floats, as
// SentencePiece's are.
std::vector<CharacterCount> choose_characters(const std::vector<uint64_t>& counts, uint64_t total,
                                              float coverage) {
  std::vector<CharacterCount> sorted;
  for (uint32_t c = 0; c < kNumCodePoints; ++c) {
    if (counts[c] != 0) sorted.push_back({c, counts[c]});
  }
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const CharacterCount& a, const CharacterCount& b) { return a.count > b.count; });
  std::vector<CharacterCount> chosen;
  uint64_t covered = 0;
  for (const CharacterCount& one : sorted) {
    if (static_cast<float>(static_cast<double>(covered) / static_cast<double>(total)) >= coverage) break;
    covered += one.count;
    if (one.code_point != kBoundary) chosen.push_back(one);
  }
  return chosen;
}

}  // namespace

PieceWords make_piece_words(const uint8_t* data, const int64_t* offsets, const uint64_t* counts,
                            size_t num_words, const std::vector<std::string_view>& reserved, float coverage) {
  PieceWords out;
  const WordReader reader(reserved);
  const auto for_each_word = [&](auto action) {
    for (size_t i = 0; i < num_words; ++i) {
      const uint8_t* const text = data + offsets[i];
      const auto size = static_cast<size_t>(offsets[i + 1] - offsets[i]);
      if (counts[i] != 0 && takes_part(text, size)) action(text, size, counts[i]);
    }
  };
  std::vector<uint64_t> character_counts(kNumCodePoints);
  size_t num_characters = 0;
  uint64_t total = 0;
  for_each_word([&](const uint8_t* text, size_t size, uint64_t count) {
    reader.read(text, size, [&](uint32_t c) {
      ++num_characters;
      if (!is_counted(c) || out.overflows) return;
      constexpr auto kMost = static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
      out.overflows = count > kMost - total;
      if (out.overflows) return;
      total += count;
      character_counts[c] += count;
    });
  });
  if (out.overflows) return out;
  const std::vector<CharacterCount> chosen = choose_characters(character_counts, total, coverage);
  std::vector<uint32_t> symbol_of(kNumCodePoints, kNoSymbol);
  for (const CharacterCount& one : chosen) symbol_of[one.code_point] = 0;
  for (uint32_t c = 0; c < kNumCodePoints; ++c) {
    if (symbol_of[c] == kNoSymbol) continue;
    symbol_of[c] = static_cast<uint32_t>(out.code_points.size());
    out.code_points.push_back(c);
    out.code_point_counts.push_back(character_counts[c]);
  }
  for (const CharacterCount& one : chosen) out.by_count.push_back(symbol_of[one.code_point]);
  out.symbols.resize(num_characters);
  size_t end = 0;
  for_each_word([&](const uint8_t* text, size_t size, uint64_t count) {
    const auto end_run = [&] {
      if (static_cast<int64_t>(end) == out.offsets.back()) return;
      out.offsets.push_back(static_cast<int64_t>(end));
      out.counts.push_back(count);
    };
    reader.read(text, size, [&](uint32_t c) {
      if (symbol_of[c] == kNoSymbol) {
        out.num_dividers += count;
        end_run();
      } else {
        out.symbols[end++] = symbol_of[c];
      }
    });
    end_run();
  });
  out.symbols.resize(end);
  return out;
}

}  // namespace tokcore
