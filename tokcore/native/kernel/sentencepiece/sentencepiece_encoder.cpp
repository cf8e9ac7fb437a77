#include "sentencepiece/sentencepiece_encoder.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include "encode/piece_model.h"
#include "scan/scanner_metaspace.h"
#include "sentencepiece/bpe_parts.h"
#include "sentencepiece/part_cache.h"
#include "sentencepiece/token_writer.h"
#include "unigram/unigram_parts.h"

namespace tokcore {
// What one thread needs. Words of a batch lie side by side, so that their entries of the cache come from
// memory together.
class SentencepieceEncoder::Worker {
 public:
  Worker(const SentencepieceEncoder& encoder, size_t cache_bytes)
      : encoder_(encoder),
        batch_(encoder.is_unigram_ ? kBatch : kBatchOfBpe),
        cache_(cache_bytes),
        writer_(encoder.vocabulary_),
        unigram_(encoder.unigram_,
                 {encoder.carries_sum_, !encoder.streams_, encoder.word_rule_ == WordRule::kEvery}, &cache_,
                 &writer_),
        bpe_(encoder.bpe_, encoder.word_rule_ == WordRule::kEvery, &cache_, &writer_) {
    if (!encoder.streams_ && cache_.keeps()) remember_pieces();
  }

  size_t cache_bytes() const { return cache_.budget_bytes(); }

  EncodeResult encode(const TextBatch& texts, const Pieces* pieces, size_t first, size_t last, IdBuffer* ids,
                      int64_t* starts, int64_t* pretokens) {
    start(ids, starts);
    for (size_t i = first; i < last; ++i) {
      const uint8_t* text = texts.data + texts.offsets[i];
      const auto size = static_cast<size_t>(texts.offsets[i + 1] - texts.offsets[i]);
      EncodeResult result{EncodeStatus::kOk, 0};
      if (pieces == nullptr) {
        result = encode_text(text, size, i, &pretokens[i]);
      } else {
        result = encode_cut_text(texts, *pieces, i, &pretokens[i]);
      }
      if (result.status != EncodeStatus::kOk) return result;
    }
    return put_all();
  }

  EncodeResult encode_strings(const StringBatch& texts, size_t first, size_t last, IdBuffer* ids,
                              int64_t* starts, int64_t* pretokens) {
    start(ids, starts);
    for (size_t i = first; i < last; ++i) {
      const StringView& string = texts.strings[i];
      const auto* text = static_cast<const uint8_t*>(string.data);
      size_t size = string.num_units;
      if (string.encoding != Encoding::kUtf8) {
        const size_t room = max_utf8_bytes(string) + kUtf8Slack;
        if (ended_.empty()) gathered_.trim(kKeptBytes);
        if (gathered_.size() + room > kGatheredBytes) {
          const EncodeResult result = put_all();
          if (result.status != EncodeStatus::kOk) return result;
          gathered_.trim(kKeptBytes);
        }
        if (gathered_.size() == 0) gathered_.reserve_more(std::max(room, kGatheredBytes));
        text = gathered_.end();
        const uint8_t* const end = write_utf8(string, gathered_.end());
        if (end == nullptr) {
          const EncodeResult result = put_all();
          return result.status != EncodeStatus::kOk ? result : EncodeResult{EncodeStatus::kSurrogate, i};
        }
        gathered_.set_end(end);
        size = static_cast<size_t>(end - text);
      }
      const EncodeResult result = encode_text(text, size, i, &pretokens[i]);
      if (result.status != EncodeStatus::kOk) return result;
    }
    const EncodeResult result = put_all();
    gathered_.trim(kKeptBytes);
    return result;
  }

 private:
  static constexpr size_t kKeptBytes = size_t{1} << 20;
  // Parts that wait at most. A Unigram's new parts are encoded side by side, and the more the quicker.
  static constexpr size_t kBatch = 512;
  static constexpr size_t kBatchOfBpe = 128;
  // Longer words are cut before they are looked up.
  static constexpr size_t kMaxWholeBytes = PartCache::kMaxShortBytes;
  static constexpr size_t kMaxRemembered = size_t{1} << 15;
  static constexpr size_t kStreamedBytes = 256;
  static constexpr size_t kStretchBytes = size_t{1} << 14;
  static constexpr size_t kGatheredBytes = size_t{1} << 15;
  // So much of a text is searched for plain words; more of it only if they are a third of what was searched.
  static constexpr size_t kTriedBytes = 1024;

  // A text whose last parts wait.
  struct Ended {
    const uint8_t* text;
    size_t size;
    size_t number;
    int64_t* pretokens;
    size_t parts_end;
    bool is_normalized;
  };

  // Remembers what the first pieces become, which are the most common ones: the first one last, so that it
  // stays.
  void remember_pieces() {
    const PieceVocabulary& vocabulary = encoder_.vocabulary_;
    normalized_.reserve_more(kBatch * kMaxWholeBytes);
    for (size_t piece = std::min(vocabulary.num_pieces(), kMaxRemembered); piece-- > 0;) {
      const std::string_view text = vocabulary.text(static_cast<uint32_t>(piece));
      if (text.size() <= kMaxWholeBytes) {
        uint8_t* const to = normalized_.end();
        std::memcpy(to, text.data(), text.size());
        normalized_.set_end(to + text.size());
        cache_.set(&parts_[num_parts_++], to, text.size(), true);
        if (parts_[num_parts_ - 1].kept != Part::Kept::kShort) --num_parts_;
      }
      if (num_parts_ < batch_ && piece > 0) continue;
      if (encoder_.is_unigram_) {
        unigram_.remember(parts_, num_parts_);
      } else {
        bpe_.remember(parts_, num_parts_);
      }
      num_parts_ = 0;
      normalized_.clear();
    }
  }

  // With room after it, so that whole blocks may be read.
  void set_normalized(const uint8_t* text, size_t size) {
    normalized_.clear();
    normalized_.reserve_more(size);
    std::memcpy(normalized_.end(), text, size);
    normalized_.set_size(size);
  }

  void start(IdBuffer* ids, int64_t* starts) {
    ids_ = ids;
    starts_ = starts;
    num_parts_ = 0;
    ended_.clear();
    is_begun_ = false;
    failure_ = {EncodeStatus::kOk, 0};
    normalized_.clear();
    normalized_.reserve_more(kStretchBytes);
  }

  EncodeResult encode_text(const uint8_t* text, size_t size, size_t number, int64_t* pretokens) {
    pretokens_ = pretokens;
    *pretokens = 0;
    bool is_done;
    if (encoder_.has_plain_words_) {
      is_done = add_raw(text, size);
    } else {
      stretch_.clear();
      encoder_.normalize(text, size, &stretch_);
      is_done = add_stretch();
    }
    stretch_.trim(kKeptBytes);
    const Ended ended{text, size, number, pretokens, num_parts_, false};
    if (!is_done) return encode_whole(ended);
    ended_.push_back(ended);
    return encoder_.is_unigram_ && ended_.size() < kBatch ? failure_ : put_all();
  }

  // Encodes text that is not normalized yet: plain words as they are, and what is between them. False if BPE
  // needs all of the text.
  bool add_raw(const uint8_t* text, size_t size) {
    const PieceNormalizer& normalizer = encoder_.normalizer_;
    size_t plain_bytes = 0;
    for (size_t begin = 0; begin < size;) {
      while (const size_t width = begin == 0 ? 0 : normalizer.plain_word(text + begin, size - begin)) {
        if (!add_plain_word(text + begin, width)) return false;
        begin += width;
        plain_bytes += width;
      }
      stretch_.clear();
      const bool are_many = begin < kTriedBytes || 3 * plain_bytes >= begin;
      begin = normalizer.normalize_from(text, size, begin, are_many, &stretch_);
      if (!add_stretch()) return false;
    }
    return true;
  }

  // Encodes a plain word, a long one in parts, as add() does. It is never cut behind its blank: what pieces
  // have there is U+2581.
  bool add_plain_word(const uint8_t* text, size_t size) {
    ++*pretokens_;
    size_t end = size > PartCache::kMaxPlainBytes ? encoder_.cuts_.next(text, size, 1) : size;
    if (end <= PartCache::kMaxPlainBytes) {
      cache_.set_plain(&parts_[num_parts_++], text, end);
    } else {
      const size_t spelled = end - 1 + sizeof(kSpaceSymbol);
      if (normalized_.size() + spelled > kStretchBytes) {
        if (!put()) return false;
        normalized_.clear();
      }
      uint8_t* const to = normalized_.end();
      std::memcpy(to, kSpaceSymbol, sizeof(kSpaceSymbol));
      std::memcpy(to + sizeof(kSpaceSymbol), text + 1, end - 1);
      normalized_.set_end(to + spelled);
      cache_.set(&parts_[num_parts_++], to, spelled, true);
    }
    if (num_parts_ == batch_ && !put()) return false;
    while (end < size) {
      const size_t begin = end;
      end = size - begin > kMaxWholeBytes ? encoder_.cuts_.next(text, size, begin) : size;
      cache_.set(&parts_[num_parts_++], text + begin, end - begin, false);
      if (num_parts_ == batch_ && !put()) return false;
    }
    return true;
  }

  // Encodes normalized text, after the waiting parts, whose text stays where it is until they are done.
  bool add_stretch() {
    if (stretch_.size() == 0) return true;
    if (normalized_.size() + stretch_.size() > kStretchBytes) {
      if (!put()) return false;
      normalized_.clear();
      if (stretch_.size() > kStretchBytes) return add(stretch_.data(), stretch_.size()) && put();
    }
    uint8_t* const to = normalized_.end();
    std::memcpy(to, stretch_.data(), stretch_.size());
    normalized_.set_end(to + stretch_.size());
    return add(to, stretch_.size());
  }

  EncodeResult encode_cut_text(const TextBatch& texts, const Pieces& pieces, size_t number,
                               int64_t* pretokens) {
    const int64_t first = pieces.firsts[number], last = pieces.firsts[number + 1];
    if (first < 0 || last < first || static_cast<uint64_t>(last) > pieces.num_ends)
      return {EncodeStatus::kBadPieces, number};
    const int64_t text_end = texts.offsets[number + 1];
    int64_t begin = texts.offsets[number];
    for (int64_t i = first; i < last; ++i) {
      if (pieces.ends[i] <= begin || pieces.ends[i] > text_end) return {EncodeStatus::kBadPieces, number};
      begin = pieces.ends[i];
    }
    if (begin != text_end) return {EncodeStatus::kBadPieces, number};
    begin = texts.offsets[number];
    pretokens_ = pretokens;
    starts_[number + 1] = static_cast<int64_t>(ids_->size());  // a text may have no pieces
    for (int64_t i = first; i < last; begin = pieces.ends[i++]) {
      const auto size = static_cast<size_t>(pieces.ends[i] - begin);
      set_normalized(texts.data + begin, size);
      const bool is_done = add(normalized_.data(), size);
      const Ended piece{normalized_.data(), size, number, pretokens, num_parts_, true};
      if (is_done) ended_.push_back(piece);
      const EncodeResult result = is_done ? put_all() : encode_whole(piece);
      if (result.status != EncodeStatus::kOk) return result;
    }
    *pretokens = last - first;
    return {EncodeStatus::kOk, 0};
  }

  // Encodes normalized text, but for the last parts, which wait. False if BPE needs all of the text.
  bool add(const uint8_t* text, size_t size) {
    for (size_t begin = 0; begin < size;) {
      const size_t word_end = encoder_.word_end(text, size, begin);
      ++*pretokens_;
      bool begins_word = true;
      while (begin < word_end) {
        // Long words are encoded in parts, which are more often known.
        const size_t end = word_end - begin > kMaxWholeBytes ? part_end(text, word_end, begin) : word_end;
        if (end - begin > PieceModel::kMaxPieceBytes) return false;
        Part* const part = &parts_[num_parts_++];
        if (encoder_.streams_) {
          PartCache::set_unkept(part, text + begin, end - begin, begins_word);
        } else {
          cache_.set(part, text + begin, end - begin, begins_word);
        }
        begin = end;
        begins_word = false;
        if (num_parts_ == batch_ && !put()) return false;
      }
    }
    return true;
  }

  // The first place that no piece crosses, after kStreamedBytes where parts are not looked up.
  size_t part_end(const uint8_t* text, size_t word_end, size_t begin) const {
    if (encoder_.is_unigram_ && encoder_.is_converted_) return word_end;  // its score is one sum
    if (encoder_.streams_) {
      if (word_end - begin <= kStreamedBytes) return word_end;
      begin += kStreamedBytes;
      while (begin < word_end && (text[begin] & 0xC0) == 0x80) ++begin;
      if (begin == word_end) return word_end;
    }
    return encoder_.cuts_.next(text, word_end, begin);
  }

  // Appends the tokens of the waiting parts. False if BPE needs all of the text in hand.
  bool put() {
    if (encoder_.is_unigram_) {
      unigram_.find(parts_, num_parts_);
    } else {
      bpe_.find(parts_, num_parts_);
    }
    size_t begin = 0;
    for (const Ended& text : ended_) {
      if (!put_parts(begin, text.parts_end)) put_whole(text);
      end_text(text);
      begin = text.parts_end;
    }
    const bool is_done = begin == num_parts_ || put_parts(begin, num_parts_);
    if (encoder_.is_unigram_) {
      unigram_.remember_new();
    } else {
      bpe_.remember_new();
    }
    num_parts_ = 0;
    ended_.clear();
    return is_done;
  }

  bool put_parts(size_t begin, size_t end) {
    begin_text();
    size_t num_bytes = 0;
    for (size_t i = begin; i < end; ++i) num_bytes += parts_[i].size;
    writer_.reserve(num_bytes);
    if (!encoder_.is_unigram_) return bpe_.put(parts_ + begin, end - begin);
    unigram_.put(parts_ + begin, end - begin);
    return true;
  }

  void begin_text() {
    if (is_begun_) return;
    is_begun_ = true;
    writer_.start(ids_);
    unigram_.start();
  }

  void end_text(const Ended& text) {
    writer_.finish();
    starts_[text.number + 1] = static_cast<int64_t>(ids_->size());
    is_begun_ = false;
  }

  // Encodes a text at once, as the rest of it matters.
  void put_whole(const Ended& text) {
    const uint8_t* whole = text.text;
    size_t size = text.size;
    if (!text.is_normalized) {
      whole_.clear();
      encoder_.normalize(text.text, text.size, &whole_);
      whole = whole_.data();
      size = whole_.size();
    }
    *text.pretokens = 0;
    for (size_t at = 0; at < size; at = encoder_.word_end(whole, size, at)) ++*text.pretokens;
    writer_.forget();
    if (size <= PieceModel::kMaxPieceBytes) {
      bpe_.put_text(whole, size);
    } else if (failure_.status == EncodeStatus::kOk) {
      failure_ = {EncodeStatus::kPieceTooLong, text.number};
    }
    whole_.trim(kKeptBytes);
  }

  // The same for the text in hand, after the texts that wait.
  EncodeResult encode_whole(const Ended& text) {
    num_parts_ = ended_.empty() ? 0 : ended_.back().parts_end;
    (void)put();
    begin_text();
    put_whole(text);
    end_text(text);
    return failure_;
  }

  // Ends the texts that wait.
  EncodeResult put_all() {
    (void)put();
    normalized_.trim(kKeptBytes);
    return failure_;
  }

  const SentencepieceEncoder& encoder_;
  size_t batch_;
  PartCache cache_;
  TokenWriter writer_;
  UnigramParts unigram_;
  BpeParts bpe_;
  PaddedBytes gathered_;
  PaddedBytes normalized_;
  PaddedBytes stretch_;  // what is between plain words, or all of a text
  PaddedBytes whole_;
  Part parts_[kBatch];  // of the texts that have ended, then of the one in hand
  size_t num_parts_ = 0;
  std::vector<Ended> ended_;
  bool is_begun_ = false;                       // tokens of the first of these texts were put before
  EncodeResult failure_{EncodeStatus::kOk, 0};  // the first one
  IdBuffer* ids_ = nullptr;
  int64_t* starts_ = nullptr;
  int64_t* pretokens_ = nullptr;  // of the text in hand
};

SentencepieceEncoder::SentencepieceEncoder(size_t cache_bytes) : workers_(cache_bytes) {}

SentencepieceEncoder::~SentencepieceEncoder() = default;

VocabularyResult SentencepieceEncoder::build(const PieceList& pieces, const NormalizerRules& rules,
                                             bool is_unigram, bool* is_charsmap) {
  const VocabularyResult built = vocabulary_.build(pieces);
  if (built.status != VocabularyStatus::kOk) return built;
  std::vector<PieceTrie::Entry> user_defined;
  for (uint32_t piece = 0; piece < vocabulary_.num_pieces(); ++piece) {
    if (vocabulary_.is(piece, PieceType::kUserDefined))
      user_defined.push_back({vocabulary_.text(piece), piece, 0});
  }
  user_defined_.build(std::move(user_defined));
  *is_charsmap = normalizer_.build(rules, user_defined_);
  if (!*is_charsmap) return built;
  is_unigram_ = carries_sum_ = is_unigram;
  if (is_unigram) {
    if (!unigram_.build(vocabulary_)) return {VocabularyStatus::kTrieTooLarge, pieces.num_pieces};
  } else if (!bpe_.build(vocabulary_, user_defined_)) {
    return {VocabularyStatus::kTrieTooLarge, pieces.num_pieces};
  }
  cuts_.build(vocabulary_);
  find_word_rule();
  has_plain_words_ = word_rule_ == WordRule::kBefore && normalizer_.has_plain_words();
  return built;
}

VocabularyResult SentencepieceEncoder::build_converted(const PieceList& pieces, ConvertedRules rules,
                                                       bool is_unigram) {
  const VocabularyResult built = vocabulary_.build(pieces);
  if (built.status != VocabularyStatus::kOk) return built;
  is_converted_ = true;
  is_unigram_ = is_unigram;
  steps_ = std::move(rules.steps);
  if (is_unigram) {
    if (!unigram_.build(vocabulary_)) return {VocabularyStatus::kTrieTooLarge, pieces.num_pieces};
  } else if (!bpe_.build(vocabulary_, user_defined_, rules.merges)) {
    return {VocabularyStatus::kTrieTooLarge, pieces.num_pieces};
  }
  cuts_.build(vocabulary_);
  find_word_rule();
  if (rules.splits_every_space) {
    word_rule_ = WordRule::kEvery;
  } else if (is_unigram) {
    word_rule_ = WordRule::kNone;
  }
  return built;
}

void SentencepieceEncoder::find_word_rule() {
  bool has_before = false, has_after = false;  // a piece with something else before a space, or after one
  for (uint32_t piece = 0; piece < vocabulary_.num_pieces(); ++piece) {
    const auto* text = reinterpret_cast<const uint8_t*>(vocabulary_.text(piece).data());
    const size_t size = vocabulary_.text(piece).size();
    for (size_t at = find_space_symbol(text, size, 0); at < size;
         at = find_space_symbol(text, size, at + 3)) {
      has_before = has_before || (at > 0 && !(at >= 3 && is_space_symbol_at(text, size, at - 3)));
      has_after = has_after || (at + 3 < size && !is_space_symbol_at(text, size, at + 3));
    }
  }
  word_rule_ = !has_before ? WordRule::kBefore : !has_after ? WordRule::kAfter : WordRule::kNone;
  streams_ = carries_sum_ && word_rule_ == WordRule::kNone;
}

size_t SentencepieceEncoder::word_end(const uint8_t* text, size_t size, size_t begin) const {
  if (word_rule_ == WordRule::kNone) return size;
  if (word_rule_ == WordRule::kEvery) {
    const size_t after = begin + (is_space_symbol_at(text, size, begin) ? 3 : 0);
    return after < size ? find_space_symbol_padded(text, size, after) : size;
  }
  if (word_rule_ == WordRule::kBefore) {
    while (is_space_symbol_at(text, size, begin)) begin += 3;
    return begin < size ? find_space_symbol_padded(text, size, begin) : size;
  }
  begin = find_space_symbol_padded(text, size, begin);
  while (begin < size && is_space_symbol_at(text, size, begin)) begin += 3;
  return begin;
}

EncodeResult SentencepieceEncoder::encode(const TextBatch& texts, size_t threads, EncodedBatch* encoded) {
  return workers_.encode(*this, texts, nullptr, threads, encoded);
}

EncodeResult SentencepieceEncoder::encode_strings(const StringBatch& texts, size_t threads,
                                                  EncodedBatch* encoded) {
  return workers_.encode_strings(*this, texts, threads, encoded);
}

EncodeResult SentencepieceEncoder::encode_string(const StringView& string, const TakeIds& take) {
  return workers_.encode_string(*this, string, take);
}

EncodeResult SentencepieceEncoder::encode_pieces(const TextBatch& texts, const Pieces& pieces, size_t threads,
                                                 EncodedBatch* encoded) {
  return workers_.encode(*this, texts, &pieces, threads, encoded);
}

}  // namespace tokcore
