// DESCRIPTION
// SentencepieceEncoder turns batches of texts into token ids as SentencePiece does: each text is normalized,
// cut where no piece crosses, and the parts are encoded by BPE (character_bpe.h) or by the highest sum of
// scores (unigram_model.h). A tokenizer.json that was made from such a model is encoded as Hugging Face's
// tokenizers do it: text takes other steps first (step_normalizer.h), BPE has a list of merges, and Unigram
// adds up the scores of each word by itself. A cache remembers parts that become the same ids anywhere. The
// ids follow the order of the texts and are the same for any number of threads and any size of cache. Linear
// in the bytes of text, but for parts that BPE cannot cut (n log n), and texts with a piece that is marked as
// unused and can be seen as two pairs. Several threads may call it at once; it keeps their caches for later
// calls.
#pragma once

#include <cstddef>
#include <cstdint>

#include "encode/batches.h"
#include "encode/encoding_pool.h"
#include "sentencepiece/character_bpe.h"
#include "sentencepiece/piece_cuts.h"
#include "sentencepiece/piece_normalizer.h"
#include "sentencepiece/piece_trie.h"
#include "sentencepiece/piece_vocabulary.h"
#include "sentencepiece/step_normalizer.h"
#include "unigram/unigram_model.h"

namespace tokcore {

// How the pieces of a tokenizer.json are used.
struct ConvertedRules {
  StepNormalizer steps;
  PieceMerges merges;       // of BPE
  bool splits_every_space;  // each U+2581 begins a word; otherwise a text is one word
};

class SentencepieceEncoder {
 public:
  explicit SentencepieceEncoder(size_t cache_bytes);
  ~SentencepieceEncoder();

  // Once, before anything else. False in *is_charsmap if the rules' charsmap is none.
  VocabularyResult build(const PieceList& pieces, const NormalizerRules& rules, bool is_unigram,
                         bool* is_charsmap);

  // The same for a tokenizer.json. rules.merges: of pieces of the list.
  VocabularyResult build_converted(const PieceList& pieces, ConvertedRules rules, bool is_unigram);

  // All throw std::bad_alloc, and std::system_error if a thread cannot start. threads > 0.
  EncodeResult encode(const TextBatch& texts, size_t threads, EncodedBatch* encoded);
  EncodeResult encode_strings(const StringBatch& texts, size_t threads, EncodedBatch* encoded);
  // The ids of one string, lent to take.
  EncodeResult encode_string(const StringView& string, const TakeIds& take);
  // Of texts that are normalized already.
  EncodeResult encode_pieces(const TextBatch& texts, const Pieces& pieces, size_t threads,
                             EncodedBatch* encoded);

  // Appends the normalized text.
  void normalize(const uint8_t* text, size_t size, PaddedBytes* out) const {
    if (is_converted_) {
      steps_.normalize(text, size, out);
    } else {
      normalizer_.normalize(text, size, out);
    }
  }

 private:
  class Worker;

  // Where texts are cut into words. kBefore: before U+2581, the first of several, if no piece has anything
  // else before one. kAfter: after it, if no piece has anything else after one. kNone: nowhere, if neither
  // holds. kEvery: before each, where the rules say so.
  enum class WordRule : uint8_t { kBefore, kAfter, kNone, kEvery };

  void find_word_rule();
  size_t word_end(const uint8_t* text, size_t size, size_t begin) const;

  PieceVocabulary vocabulary_;
  PieceTrie user_defined_;
  PieceNormalizer normalizer_;
  PieceCuts cuts_;
  CharacterBpe bpe_;
  UnigramModel unigram_;
  StepNormalizer steps_;
  bool is_unigram_ = false;
  bool is_converted_ = false;     // from a tokenizer.json
  bool carries_sum_ = false;      // the cut of a word depends on the sum of scores before it
  bool has_plain_words_ = false;  // most words of ASCII need not be normalized to be looked up
  bool streams_ = false;          // text is encoded as it comes, and no part of it is remembered
  WordRule word_rule_ = WordRule::kBefore;
  EncodingPool<Worker> workers_;
};

}  // namespace tokcore
