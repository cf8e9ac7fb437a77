#include "encode/sentencepiece_encoder.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <memory>
#include <utility>

#include "encode/piece_model.h"
#include "encode/pretoken_cache.h"
#include "scan/scanner_metaspace.h"

namespace tokcore {
// What one thread needs. Words of a batch lie side by side, so that their entries of the cache come from
// memory together.
class SentencepieceEncoder::Worker {
 public:
  Worker(const SentencepieceEncoder& encoder, size_t cache_bytes) : encoder_(encoder), cache_(cache_bytes) {}

  size_t cache_bytes() const { return cache_.budget_bytes(); }

  EncodeResult encode(const TextBatch& texts, const Pieces* pieces, size_t first, size_t last, IdBuffer* ids,
                      int64_t* starts, int64_t* pretokens) {
    for (size_t i = first; i < last; ++i) {
      const uint8_t* text = texts.data + texts.offsets[i];
      const auto size = static_cast<size_t>(texts.offsets[i + 1] - texts.offsets[i]);
      EncodeResult result{EncodeStatus::kOk, 0};
      if (pieces == nullptr) {
        result = encode_text(text, size, i, ids, &pretokens[i]);
      } else {
        result = encode_cut_text(texts, *pieces, i, ids, &pretokens[i]);
      }
      if (result.status != EncodeStatus::kOk) return result;
      starts[i + 1] = static_cast<int64_t>(ids->size());
    }
    return {EncodeStatus::kOk, 0};
  }

  EncodeResult encode_strings(const StringBatch& texts, size_t first, size_t last, IdBuffer* ids,
                              int64_t* starts, int64_t* pretokens) {
    for (size_t i = first; i < last; ++i) {
      const StringView& string = texts.strings[i];
      const auto* text = static_cast<const uint8_t*>(string.data);
      size_t size = string.num_units;
      if (string.encoding != Encoding::kUtf8) {
        gathered_.clear();
        gathered_.reserve_more(max_utf8_bytes(string) + kUtf8Slack);
        const uint8_t* const end = write_utf8(string, gathered_.end());
        if (end == nullptr) return {EncodeStatus::kSurrogate, i};
        text = gathered_.data();
        size = static_cast<size_t>(end - text);
      }
      const EncodeResult result = encode_text(text, size, i, ids, &pretokens[i]);
      if (result.status != EncodeStatus::kOk) return result;
      starts[i + 1] = static_cast<int64_t>(ids->size());
      gathered_.trim(kKeptBytes);
    }
    return {EncodeStatus::kOk, 0};
  }

 private:
  static constexpr size_t kKeptBytes = size_t{1} << 20;
  static constexpr size_t kBatch = 64;
  // In a cache of Unigram: the numbers of a word that hold up to some sum are preceded by these two.
  static constexpr int32_t kHasLimit = -1;
  static constexpr size_t kLimitNumbers = 2;

  struct Part {
    const uint8_t* text;
    size_t size;
    PretokenCache::Key key;
    bool begins_word;
  };

  EncodeResult encode_text(const uint8_t* text, size_t size, size_t number, IdBuffer* ids,
                           int64_t* pretokens) {
    normalized_.clear();
    encoder_.normalize(text, size, &normalized_);
    start(ids, pretokens);
    const bool is_done = add(normalized_.data(), normalized_.size());
    return finish(is_done, number);
  }

  EncodeResult encode_cut_text(const TextBatch& texts, const Pieces& pieces, size_t number, IdBuffer* ids,
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
    start(ids, pretokens);
    begin = texts.offsets[number];
    for (int64_t i = first; i < last; begin = pieces.ends[i++]) {
      // With room behind it, from which whole blocks may be read.
      const auto size = static_cast<size_t>(pieces.ends[i] - begin);
      normalized_.clear();
      normalized_.reserve_more(size);
      std::memcpy(normalized_.end(), texts.data + begin, size);
      normalized_.set_size(size);
      const bool is_done = add(normalized_.data(), size);
      const EncodeResult result = finish(is_done, number);
      if (result.status != EncodeStatus::kOk) return result;
      start_after();
    }
    *pretokens = last - first;
    return {EncodeStatus::kOk, 0};
  }

  void start(IdBuffer* ids, int64_t* pretokens) {
    ids_ = ids;
    pretokens_ = pretokens;
    *pretokens = 0;
    start_after();
  }

  // The next part of a cut text is encoded for itself.
  void start_after() {
    first_id_ = ids_->size();
    num_parts_ = 0;
    was_unknown_ = false;
    sum_ = 0;
  }

  EncodeResult finish(bool is_done, size_t number) {
    if (!is_done) {
      if (normalized_.size() > PieceModel::kMaxPieceBytes) return {EncodeStatus::kPieceTooLong, number};
      // All of it at once, as the rest of a text matters.
      const size_t size = normalized_.size();
      ids_->set_end(ids_->data() + first_id_);
      ids_->reserve_more(size);
      numbers_.resize(std::max(numbers_.size(), size));
      const size_t count =
          encoder_.bpe_.encode(normalized_.data(), size, true, bpe_scratch_, numbers_.data());
      was_unknown_ = false;
      put(numbers_.data(), count);
    }
    normalized_.trim(kKeptBytes);
    return {EncodeStatus::kOk, 0};
  }

  // Encodes normalized text. False if BPE needs all of the text.
  bool add(const uint8_t* text, size_t size) {
    for (size_t begin = 0; begin < size;) {
      const size_t word_end = encoder_.word_end(text, size, begin);
      ++*pretokens_;
      const size_t word = begin;
      while (begin < word_end) {
        const size_t end = part_end(text, word_end, begin);
        if (end - begin > PieceModel::kMaxPieceBytes) return false;
        parts_[num_parts_++] = {text + begin, end - begin, make_key(text + begin, end - begin),
                                begin == word};
        begin = end;
        if (num_parts_ == kBatch && !look_up()) return false;
      }
    }
    return look_up();
  }

  // Long words are encoded in parts, between characters that no piece holds side by side.
  size_t part_end(const uint8_t* text, size_t word_end, size_t begin) const {
    if (word_end - begin <= PretokenCache::kMaxShortBytes) return word_end;
    if (encoder_.is_unigram_ && encoder_.is_converted_) return word_end;  // its score is one sum
    return encoder_.cuts_.next(text, word_end, begin);
  }

  PretokenCache::Key make_key(const uint8_t* text, size_t size) const {
    if (size <= PretokenCache::kMaxShortBytes) {
      const PretokenCache::Key key = cache_.entries().key_inside(text, size);
      cache_.entries().prefetch(key);
      return key;
    }
    const size_t hashed = std::min(size, PretokenCache::kMaxLongBytes);
    return cache_.long_key(text, hashed, text + size);
  }

  // Appends the ids of the waiting parts.
  bool look_up() {
    size_t num_bytes = 0;
    for (size_t i = 0; i < num_parts_; ++i) num_bytes += parts_[i].size;
    ids_->reserve_more(num_bytes + PretokenCache::kMaxShortIds);
    const size_t num_parts = num_parts_;
    num_parts_ = 0;
    for (size_t i = 0; i < num_parts; ++i) {
      if (encoder_.word_rule_ == WordRule::kEvery && parts_[i].begins_word) was_unknown_ = false;
      const PretokenCache::Ids known = find(parts_[i]);
      const bool is_known =
          known.ids != nullptr &&
          (encoder_.carries_sum_ ? put_known_after_sum(parts_[i], known) : put_known(known));
      if (is_known) continue;
      if (encoder_.carries_sum_) {
        put_new_after_sum(parts_[i]);
      } else if (!put_new(parts_[i])) {
        return false;
      }
    }
    return true;
  }

  PretokenCache::Ids find(const Part& part) const {
    if (part.size > PretokenCache::kMaxShortBytes) {
      if (part.size > PretokenCache::kMaxLongBytes) return {nullptr, 0};
      return cache_.find_long(part.text, part.size, part.key);
    }
    const PretokenCache::Found found = cache_.entries().find(part.key);
    if (found.entry == nullptr) return {nullptr, 0};
    if (found.count <= PretokenCache::kMaxShortIds) return {found.entry->ids, found.count};
    return cache_.in_ring(*found.entry);
  }

  void remember(const Part& part, const uint32_t* numbers, size_t count) {
    const auto* ids = reinterpret_cast<const int32_t*>(numbers);
    if (part.size <= PretokenCache::kMaxShortBytes) {
      cache_.insert(part.key, ids, count);
    } else if (part.size <= PretokenCache::kMaxLongBytes) {
      cache_.insert_long(part.text, part.size, part.key, ids, count);
    }
  }

  bool put_known(const PretokenCache::Ids& known) {
    put(reinterpret_cast<const uint32_t*>(known.ids), known.count);
    return true;
  }

  // False if BPE needs all of the text.
  bool put_new(const Part& part) {
    uint32_t* const numbers = make_room(part.size);
    const size_t count = encoder_.is_unigram_
                             ? encoder_.unigram_.encode_word(part.text, part.size, unigram_scratch_, numbers)
                             : encoder_.bpe_.encode(part.text, part.size, false, bpe_scratch_, numbers);
    if (count == CharacterBpe::kNeedsText) return false;
    remember(part, numbers, count);
    put(numbers, count);
    return true;
  }

  bool put_known_after_sum(const Part& part, PretokenCache::Ids known) {
    float limit = UnigramModel::kMaxSum - encoder_.unigram_.reach(part.size);
    if (known.count > kLimitNumbers && known.ids[0] == kHasLimit) {
      limit = std::min(limit, std::bit_cast<float>(known.ids[1]));
      known = {known.ids + kLimitNumbers, known.count - kLimitNumbers};
    }
    return put_if_certain(reinterpret_cast<const uint32_t*>(known.ids), known.count, limit);
  }

  // Appends the cut of a word that holds up to some sum. False if the sum is beyond.
  bool put_if_certain(const uint32_t* numbers, size_t count, float limit) {
    if (!(std::fabs(sum_) <= limit)) return false;
    const float* const scores = encoder_.unigram_.scores();
    for (size_t i = 0; i < count; ++i) sum_ += scores[numbers[i]];
    put(numbers, count);
    return true;
  }

  void put_new_after_sum(const Part& part) {
    const UnigramModel& model = encoder_.unigram_;
    uint32_t* const numbers = make_room(part.size + kLimitNumbers) + kLimitNumbers;
    if (part.size <= PretokenCache::kMaxLongBytes) {
      const UnigramModel::Measured measured = model.measure(part.text, part.size, unigram_scratch_, numbers);
      if (measured.limit >= UnigramModel::kMaxSum) {
        remember(part, numbers, measured.count);
      } else if (measured.limit >= 0) {
        numbers[-2] = static_cast<uint32_t>(kHasLimit);
        numbers[-1] = std::bit_cast<uint32_t>(measured.limit);
        remember(part, numbers - kLimitNumbers, measured.count + kLimitNumbers);
      }
      const float limit = std::min(measured.limit, UnigramModel::kMaxSum - model.reach(part.size));
      if (put_if_certain(numbers, measured.count, limit)) return;
    }
    const size_t count = model.encode(part.text, part.size, &sum_, unigram_scratch_, numbers);
    put(numbers, count);
  }

  uint32_t* make_room(size_t num_numbers) {
    if (numbers_.size() < num_numbers) numbers_.resize(num_numbers);
    return numbers_.data();
  }

  // Appends tokens, for which there is room.
  void put(const uint32_t* numbers, size_t count) {
    const PieceVocabulary& vocabulary = encoder_.vocabulary_;
    if (!vocabulary.has_bytes()) {
      // Unknown text next to unknown text is one token.
      const uint32_t unknown = vocabulary.unknown();
      if (was_unknown_ && count > 0 && numbers[0] == unknown) {
        ++numbers;
        --count;
      }
      if (count > 0) was_unknown_ = numbers[count - 1] == unknown;
    }
    int32_t* out = ids_->end();
    const int32_t* const external = vocabulary.ids();
    for (size_t i = 0; i < count; ++i) out[i] = external[numbers[i]];
    ids_->set_end(out + count);
  }

  const SentencepieceEncoder& encoder_;
  PretokenCache cache_;
  PaddedBytes gathered_;
  PaddedBytes normalized_;
  CharacterBpeScratch bpe_scratch_;
  UnigramModel::Scratch unigram_scratch_;
  std::vector<uint32_t> numbers_;
  Part parts_[kBatch];
  size_t num_parts_ = 0;

  // Of the text in hand.
  IdBuffer* ids_ = nullptr;
  int64_t* pretokens_ = nullptr;
  size_t first_id_ = 0;
  float sum_ = 0;
  bool was_unknown_ = false;
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
    unigram_.build(vocabulary_);
  } else {
    bpe_.build(vocabulary_, user_defined_);
  }
  cuts_.build(vocabulary_.bytes(), vocabulary_.starts(), vocabulary_.num_pieces());
  find_word_rule();
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
    unigram_.build(vocabulary_);
  } else {
    bpe_.build(vocabulary_, user_defined_, rules.merges);
  }
  cuts_.build(vocabulary_.bytes(), vocabulary_.starts(), vocabulary_.num_pieces());
  find_word_rule();
  if (rules.splits_every_space) {
    word_rule_ = WordRule::kEvery;
  } else if (is_unigram) {
    word_rule_ = WordRule::kNone;
  }
  return built;
}

void SentencepieceEncoder::find_word_rule() {
  bool has_before = false, has_behind = false;  // a piece with something else before, or behind, a space
  for (uint32_t piece = 0; piece < vocabulary_.num_pieces(); ++piece) {
    const auto* text = reinterpret_cast<const uint8_t*>(vocabulary_.text(piece).data());
    const size_t size = vocabulary_.text(piece).size();
    for (size_t at = find_space_symbol(text, size, 0); at < size;
         at = find_space_symbol(text, size, at + 3)) {
      has_before = has_before || (at > 0 && !(at >= 3 && is_space_symbol_at(text, size, at - 3)));
      has_behind = has_behind || (at + 3 < size && !is_space_symbol_at(text, size, at + 3));
    }
  }
  word_rule_ = !has_before ? WordRule::kBefore : !has_behind ? WordRule::kBehind : WordRule::kNone;
}

size_t SentencepieceEncoder::word_end(const uint8_t* text, size_t size, size_t begin) const {
  if (word_rule_ == WordRule::kNone) return size;
  if (word_rule_ == WordRule::kEvery) {
    const size_t behind = begin + (is_space_symbol_at(text, size, begin) ? 3 : 0);
    return behind < size ? find_space_symbol(text, size, behind) : size;
  }
  if (word_rule_ == WordRule::kBefore) {
    while (is_space_symbol_at(text, size, begin)) begin += 3;
    return begin < size ? find_space_symbol(text, size, begin) : size;
  }
  begin = find_space_symbol(text, size, begin);
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

EncodeResult SentencepieceEncoder::encode_pieces(const TextBatch& texts, const Pieces& pieces, size_t threads,
                                                 EncodedBatch* encoded) {
  return workers_.encode(*this, texts, &pieces, threads, encoded);
}

}  // namespace tokcore
