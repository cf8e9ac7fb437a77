// DESCRIPTION
// BpeParts encodes the parts of texts by SentencePiece's BPE (character_bpe.h), one batch after the other.
// Parts that the cache does not know are encoded side by side. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "sentencepiece/character_bpe.h"
#include "sentencepiece/part_cache.h"
#include "sentencepiece/token_writer.h"

namespace tokcore {

class BpeParts {
 public:
  // separates_words: unknown text does not go on into the next word.
  BpeParts(const CharacterBpe& bpe, bool separates_words, PartCache* cache, TokenWriter* writer)
      : bpe_(bpe), separates_words_(separates_words), cache_(*cache), writer_(*writer) {}

  // A batch: find() all parts, put() them in order, as many at once as are of one text, then remember_new().
  void find(Part* parts, size_t num_parts);
  // False if BPE needs all of the text: then put_text().
  bool put(const Part* parts, size_t num_parts);
  void remember_new();
  void put_text(const uint8_t* text, size_t size);
  // Parts that are not known yet.
  void remember(Part* parts, size_t num_parts);

 private:
  void encode_new();

  const CharacterBpe& bpe_;
  bool separates_words_;
  PartCache& cache_;
  TokenWriter& writer_;
  CharacterBpeScratch scratch_;
  std::vector<Part*> new_parts_;
  std::vector<CharacterBpe::Text> new_texts_;  // of these parts
  size_t next_ = 0;                            // of the new ones, the next one to put
  std::vector<uint32_t> numbers_;              // of these texts
  std::vector<uint32_t> numbers_of_text_;
};

}  // namespace tokcore
