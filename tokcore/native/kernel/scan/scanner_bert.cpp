#include "scan/scanner_bert.h"

#include "scan/character.h"
#include "text/bert_tables.h"

namespace tokcore {
namespace {

// Of the character at a position, which must be before the end. A malformed byte is part of a word.
struct Classified {
  uint8_t kind;
  uint8_t size;
};

Classified classify(const uint8_t* text, size_t size, size_t position) {
  const uint8_t byte = text[position];
  if (byte < 0x80) return {bert::kClassLeaves[0][byte], 1};
  const Character c = multibyte_character_at(text, size, position);
  return {c.code_point == kNoCodePoint ? bert::kWord : bert::class_of(c.code_point), c.size};
}

size_t skip(const uint8_t* text, size_t size, size_t position, uint8_t kind) {
  while (position < size) {
    const Classified c = classify(text, size, position);
    if (c.kind != kind) break;
    position += c.size;
  }
  return position;
}

}  // namespace

size_t scan_bert(const uint8_t* text, size_t size, size_t begin, uint64_t* ends, size_t capacity) {
  static_assert(bert::kWord == 0);
  size_t count = 0;
  while (count < capacity && begin < size) {
    const Classified first = classify(text, size, begin);
    begin += first.size;
    if (first.kind != bert::kAlone) begin = skip(text, size, begin, first.kind);
    ends[count++] = begin;
  }
  return count;
}

}  // namespace tokcore
