#include "wordpiece/character_words.h"

#include "scan/character.h"
#include "text/bert_tables.h"

namespace tokcore {
namespace {

constexpr size_t kNumCodePoints = 0x110000;
constexpr size_t kPrefixSize = 2;  // of ##

struct Word {
  size_t num_characters = 0;
  bool takes_part = false;
};

// Calls action(number, code point) for each character, as long as they are well-formed.
template <typename Action>
bool for_each_character(const uint8_t* text, size_t size, Action action) {
  size_t number = 0;
  for (size_t at = 0; at < size;) {
    const Character c = character_at(text, size, at);
    if (c.code_point == kNoCodePoint) return false;
    action(number++, c.code_point);
    at += c.size;
  }
  return true;
}

Word look_at(const uint8_t* text, size_t size) {
  Word word;
  bool is_white = true;
  const bool is_well_formed = for_each_character(text, size, [&](size_t, uint32_t c) {
    ++word.num_characters;
    is_white &= bert::class_of(c) == bert::kWhite;
  });
  word.takes_part = is_well_formed && !is_white;
  return word;
}

bool begins_like_the_prefix(const uint8_t* text, size_t size) {
  return size > kPrefixSize && text[0] == '#' && text[1] == '#';
}

// The code points that were seen, in order; their numbers from `next` on go into `symbol_of`.
std::vector<uint32_t> number(std::vector<uint32_t>& symbol_of, uint32_t next) {
  std::vector<uint32_t> found;
  for (uint32_t c = 0; c < kNumCodePoints; ++c) {
    if (symbol_of[c] == 0) continue;
    found.push_back(c);
    symbol_of[c] = next++;
  }
  return found;
}

}  // namespace

std::vector<size_t> CharacterWords::symbol_bytes() const {
  std::vector<size_t> sizes;
  for (const auto* code_points : {&first, &further}) {
    for (const uint32_t c : *code_points)
      sizes.push_back(size_t{1} + (c >= 0x80) + (c >= 0x800) + (c >= 0x10000));
  }
  return sizes;
}

CharacterWords make_character_words(const uint8_t* data, const int64_t* offsets, const uint64_t* counts,
                                    size_t num_words) {
  CharacterWords out;
  std::vector<uint32_t> first(kNumCodePoints), further(kNumCodePoints);  // seen or not, then the symbol
  size_t num_symbols = 0, num_out = 0;
  const auto for_each_word = [&](auto action) {
    for (size_t i = 0; i < num_words; ++i) {
      if (counts[i] == 0) continue;
      const uint8_t* const text = data + offsets[i];
      const auto size = static_cast<size_t>(offsets[i + 1] - offsets[i]);
      const Word word = look_at(text, size);
      if (word.takes_part) action(text, size, word.num_characters, counts[i]);
    }
  };
  for_each_word([&](const uint8_t* text, size_t size, size_t num_characters, uint64_t) {
    num_symbols += num_characters;
    num_out += begins_like_the_prefix(text, size) ? 2 : 1;
    for_each_character(text, size, [&](size_t place, uint32_t c) {
      first[c] = 1;
      if (place != 0) further[c] = 1;
    });
  });
  out.first = number(first, 0);
  out.further = number(further, static_cast<uint32_t>(out.first.size()));
  out.symbols.resize(num_symbols);
  out.offsets.reserve(num_out + 1);
  out.counts.reserve(num_out);
  size_t end = 0;
  for_each_word([&](const uint8_t* text, size_t size, size_t, uint64_t count) {
    const auto end_word = [&] {
      out.offsets.push_back(static_cast<int64_t>(end));
      out.counts.push_back(count);
    };
    const bool is_cut = begins_like_the_prefix(text, size);
    for_each_character(text, size, [&](size_t place, uint32_t c) {
      if (is_cut && place == kPrefixSize) end_word();
      out.symbols[end++] = place == 0 ? first[c] : further[c];
    });
    end_word();
  });
  return out;
}

}  // namespace tokcore
