// DESCRIPTION
// BpeParts encodes the parts of a text by SentencePiece's BPE (character_bpe.h), one batch after the other.
// Parts that the cache does not know are encoded side by side. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "encode/character_bpe.h"
#include "encode/part_cache.h"
#include "encode/token_writer.h"

namespace tokcore {

class BpeParts {
 public:
  // separates_words: unknown text does not go on into the next word.
  BpeParts(const CharacterBpe& bpe, bool separates_words, PartCache* cache, TokenWriter* writer)
      : bpe_(bpe), separates_words_(separates_words), cache_(*cache), writer_(*writer) {}

  // False if BPE needs all of the text: then put_text().
  bool put(Part* parts, size_t num_parts);
  void put_text(const uint8_t* text, size_t size);
  // Parts that are not known yet.
  void remember(Part* parts, size_t num_parts);

 private:
  void encode_new();
  void remember_new();

  const CharacterBpe& bpe_;
  bool separates_words_;
  PartCache& cache_;
  TokenWriter& writer_;
  CharacterBpeScratch scratch_;
  std::vector<Part*> new_parts_;
  std::vector<CharacterBpe::Text> new_texts_;  // of these parts
  std::vector<uint32_t> numbers_;
};

}  // namespace tokcore
