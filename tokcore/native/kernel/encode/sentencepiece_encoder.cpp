#include "encode/sentencepiece_encoder.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
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
  Worker(const SentencepieceEncoder& encoder, size_t cache_bytes) : encoder_(encoder), cache_(cache_bytes) {
    if (!encoder.streams_ && cache_bytes >= PretokenCache::kMinBudgetBytes) remember_pieces();
  }

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
  // Longer words are cut before they are looked up.
  static constexpr size_t kMaxWholeBytes = PretokenCache::kMaxShortBytes + 2;
  static constexpr size_t kMaxRemembered = size_t{1} << 15;
  static constexpr size_t kStreamedBytes = 256;
  static constexpr size_t kStretchBytes = size_t{1} << 14;
  // So much of a text is searched for plain words; more of it only if they are a third of what was searched.
  static constexpr size_t kTriedBytes = 1024;
  // In a cache of Unigram: the numbers of a word that hold up to some sum are preceded by these two.
  static constexpr int32_t kHasLimit = -1;
  static constexpr size_t kLimitNumbers = 2;

  // Where the cache keeps what a part becomes.
  enum class Kept : uint8_t { kShort, kLong, kNot };

  struct Part {
    const uint8_t* text;
    size_t size;
    PretokenCache::Key key;
    Kept kept;
    bool begins_word;
    bool is_cut;    // no place in it that no piece crosses
    bool is_plain;  // text begins with a blank, which counts as U+2581
  };

  // Remembers what the first pieces become, which are the most common ones: the first one last, so that it
  // stays.
  void remember_pieces() {
    const PieceVocabulary& vocabulary = encoder_.vocabulary_;
    for (size_t piece = std::min(vocabulary.num_pieces(), kMaxRemembered); piece-- > 0;) {
      const std::string_view text = vocabulary.text(static_cast<uint32_t>(piece));
      set_normalized(reinterpret_cast<const uint8_t*>(text.data()), text.size());
      Part part;
      set_part(&part, normalized_.data(), text.size(), true, true);
      if (part.kept != Kept::kShort) continue;
      uint32_t* const numbers = make_room(part.size + kLimitNumbers) + kLimitNumbers;
      (void)encode_new(part, numbers);
    }
  }

  // With room after it, so that whole blocks may be read.
  void set_normalized(const uint8_t* text, size_t size) {
    normalized_.clear();
    normalized_.reserve_more(size);
    std::memcpy(normalized_.end(), text, size);
    normalized_.set_size(size);
  }

  EncodeResult encode_text(const uint8_t* text, size_t size, size_t number, IdBuffer* ids,
                           int64_t* pretokens) {
    start(ids, pretokens);
    normalized_.clear();
    if (encoder_.has_plain_words_) {
      if (add_raw(text, size)) return finish(true, number);
      ids->set_end(ids->data() + first_id_);
      start(ids, pretokens);
      normalized_.clear();
    }
    encoder_.normalize(text, size, &normalized_);
    const bool is_done = add(normalized_.data(), normalized_.size()) && look_up();
    return finish(is_done, number);
  }

  // Encodes text that is not normalized yet: plain words as they are, and what is between them. False if BPE
  // needs all of the text.
  bool add_raw(const uint8_t* text, size_t size) {
    const PieceNormalizer& normalizer = encoder_.normalizer_;
    normalized_.reserve_more(kStretchBytes);
    size_t plain_bytes = 0;
    for (size_t begin = 0; begin < size;) {
      while (const size_t width = begin == 0 ? 0 : normalizer.plain_word(text + begin, size - begin)) {
        set_plain_part(&parts_[num_parts_++], text + begin, width);
        ++*pretokens_;
        begin += width;
        plain_bytes += width;
        if (num_parts_ == kBatch && !look_up()) return false;
      }
      stretch_.clear();
      const bool are_many = begin < kTriedBytes || 3 * plain_bytes >= begin;
      begin = normalizer.normalize_from(text, size, begin, are_many, &stretch_);
      if (!add_stretch()) return false;
    }
    stretch_.trim(kKeptBytes);
    return look_up();
  }

  // Encodes normalized text, after the waiting parts, whose text stays where it is until they are done.
  bool add_stretch() {
    if (stretch_.size() == 0) return true;
    if (normalized_.size() + stretch_.size() > kStretchBytes) {
      if (!look_up()) return false;
      normalized_.clear();
      if (stretch_.size() > kStretchBytes) return add(stretch_.data(), stretch_.size()) && look_up();
    }
    uint8_t* const to = normalized_.end();
    std::memcpy(to, stretch_.data(), stretch_.size());
    normalized_.set_end(to + stretch_.size());
    return add(to, stretch_.size());
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
      const auto size = static_cast<size_t>(pieces.ends[i] - begin);
      set_normalized(texts.data + begin, size);
      const bool is_done = add(normalized_.data(), size) && look_up();
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
    is_noting_ = false;
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
      was_unknown_ = is_noting_ = false;
      put(numbers_.data(), count);
    }
    normalized_.trim(kKeptBytes);
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
        const bool is_cut = word_end - begin > kMaxWholeBytes;
        const size_t end = is_cut ? part_end(text, word_end, begin) : word_end;
        if (end - begin > PieceModel::kMaxPieceBytes) return false;
        set_part(&parts_[num_parts_++], text + begin, end - begin, begins_word, is_cut);
        begin = end;
        begins_word = false;
        if (num_parts_ == kBatch && !look_up()) return false;
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

  // In place: a processor waits for what was written in small parts and is read in large ones.
  void set_part(Part* part, const uint8_t* text, size_t size, bool begins_word, bool is_cut) const {
    part->text = text;
    part->size = size;
    part->begins_word = begins_word;
    part->is_cut = is_cut;
    part->is_plain = false;
    // The last byte of U+2581 stands for all of it: no text begins with such a byte.
    if (encoder_.streams_) {
      part->kept = Kept::kNot;
      return;
    }
    const size_t skipped = is_space_symbol_at(text, size, 0) ? 2 : 0;
    if (size - skipped <= PretokenCache::kMaxShortBytes && *text != kSpaceSymbol[2]) {
      part->key = cache_.entries().key_inside(text + skipped, size - skipped);
      part->kept = Kept::kShort;
      cache_.entries().prefetch(part->key);
    } else if (size <= PretokenCache::kMaxLongBytes) {
      part->key = cache_.long_key(text, size, text + size);
      part->kept = Kept::kLong;
    } else {
      part->kept = Kept::kNot;
    }
  }

  // text: with 16 bytes that may be read. width: of a plain word.
  void set_plain_part(Part* part, const uint8_t* text, size_t width) const {
    part->text = text;
    part->size = width - 1 + sizeof(kSpaceSymbol);
    part->begins_word = true;
    part->is_cut = false;
    part->is_plain = true;
    part->kept = Kept::kShort;
    Bytes16 bytes;
    std::memcpy(&bytes, text, sizeof(bytes));
    bytes ^= Bytes16{little_endian(uint64_t{' '} ^ kSpaceSymbol[2]), 0};
    part->key = cache_.entries().key_of(bytes, width);
    cache_.entries().prefetch(part->key);
  }

  // Gives a plain word its normalized text, which lasts until the next one.
  void spell(Part* part) {
    std::memcpy(spelled_, kSpaceSymbol, sizeof(kSpaceSymbol));
    std::memcpy(spelled_ + sizeof(kSpaceSymbol), part->text + 1, part->size - sizeof(kSpaceSymbol));
    part->text = spelled_;
    part->is_plain = false;
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
      if (put_entry(parts_[i])) continue;
      if (parts_[i].is_plain) spell(&parts_[i]);
      if (!put_part(parts_[i])) return false;
    }
    return true;
  }

  // The common case, without a branch on the number of ids. False if there is more to it.
  bool put_entry(const Part& part) {
    if (part.kept != Kept::kShort) return false;
    const PretokenCache::Found found = cache_.entries().find(part.key);
    if (found.entry == nullptr || found.count > PretokenCache::kMaxShortIds) return false;
    // Behind the last one, zeros.
    const auto* const numbers = reinterpret_cast<const uint32_t*>(found.entry->ids);
    const PieceVocabulary& vocabulary = encoder_.vocabulary_;
    if (!vocabulary.has_bytes() && numbers[0] == vocabulary.unknown()) return false;
    if (encoder_.carries_sum_) {
      if (found.entry->ids[0] == kHasLimit || !(std::fabs(sum_) <= room(part.size))) return false;
      const float* const scores = encoder_.unigram_.scores();
      float sums[PretokenCache::kMaxShortIds + 1] = {sum_};
      for (size_t i = 0; i < PretokenCache::kMaxShortIds; ++i) sums[i + 1] = sums[i] + scores[numbers[i]];
      sum_ = sums[found.count];
    }
    was_unknown_ = !vocabulary.has_bytes() && numbers[found.count - 1] == vocabulary.unknown();
    int32_t* const out = ids_->end();
    for (size_t i = 0; i < PretokenCache::kMaxShortIds; ++i) out[i] = vocabulary.ids()[numbers[i]];
    ids_->set_end(out + found.count);
    return true;
  }

  // False if BPE needs all of the text.
  bool put_part(const Part& part) {
    const PretokenCache::Ids known = find(part);
    if (known.ids != nullptr && put_known(part, known)) return true;
    if (!part.is_cut) {
      const size_t end = part_end(part.text, part.size, 0);
      if (end < part.size) return put_in_parts(part, end);
    }
    if (!encoder_.carries_sum_) return put_new(part);
    put_new_after_sum(part);
    return true;
  }

  // Encodes a word part by part, and remembers what all of it becomes.
  bool put_in_parts(const Part& word, size_t end) {
    noted_.assign(kLimitNumbers, 0);
    noted_limit_ = std::numeric_limits<float>::max();
    is_noting_ = true;
    size_t num_parts = 0;
    for (size_t begin = 0; begin < word.size; begin = end) {
      if (begin > 0) end = part_end(word.text, word.size, begin);
      set_part(&word_parts_[num_parts++], word.text + begin, end - begin, false, true);
    }
    for (size_t i = 0; i < num_parts; ++i) {
      const auto before = static_cast<size_t>(word_parts_[i].text - word.text);
      noted_reach_ = encoder_.carries_sum_ ? encoder_.unigram_.reach(before) : 0;
      if (!put_part(word_parts_[i])) return false;
    }
    if (is_noting_) remember_noted(word);
    is_noting_ = false;
    return true;
  }

  void remember_noted(const Part& word) {
    uint32_t* const numbers = noted_.data() + kLimitNumbers;
    const size_t count = noted_.size() - kLimitNumbers;
    if (encoder_.carries_sum_) {
      remember_with_limit(word, numbers, count, noted_limit_);
    } else {
      remember(word, numbers, count);
    }
  }

  PretokenCache::Ids find(const Part& part) const {
    if (part.kept == Kept::kShort) {
      const PretokenCache::Found found = cache_.entries().find(part.key);
      if (found.entry == nullptr) return {nullptr, 0};
      if (found.count <= PretokenCache::kMaxShortIds) return {found.entry->ids, found.count};
      return cache_.in_ring(*found.entry);
    }
    if (part.kept == Kept::kNot) return {nullptr, 0};
    return cache_.find_long(part.text, part.size, part.key);
  }

  void remember(const Part& part, const uint32_t* numbers, size_t count) {
    const auto* ids = reinterpret_cast<const int32_t*>(numbers);
    if (part.kept == Kept::kShort) {
      cache_.insert(part.key, ids, count);
    } else if (part.kept == Kept::kLong) {
      cache_.insert_long(part.text, part.size, part.key, ids, count);
    }
  }

  // numbers: with room for kLimitNumbers before them.
  void remember_with_limit(const Part& part, uint32_t* numbers, size_t count, float limit) {
    if (limit >= room(part.size)) {
      remember(part, numbers, count);
    } else if (limit >= 0) {
      numbers[-2] = static_cast<uint32_t>(kHasLimit);
      numbers[-1] = std::bit_cast<uint32_t>(limit);
      remember(part, numbers - kLimitNumbers, count + kLimitNumbers);
    }
  }

  // Up to which sum a text of that size is certain not to make sums start again.
  float room(size_t size) const { return UnigramModel::kMaxSum - 8 - encoder_.unigram_.reach(size); }

  // False if it holds for sums only that are not as far from 0.
  bool put_known(const Part& part, PretokenCache::Ids known) {
    float limit = std::numeric_limits<float>::max();
    if (encoder_.carries_sum_ && known.count > kLimitNumbers && known.ids[0] == kHasLimit) {
      limit = std::bit_cast<float>(known.ids[1]);
      known = {known.ids + kLimitNumbers, known.count - kLimitNumbers};
    }
    const auto* const numbers = reinterpret_cast<const uint32_t*>(known.ids);
    if (encoder_.carries_sum_) return put_if_certain(part, numbers, known.count, limit);
    put(numbers, known.count);
    return true;
  }

  // Writes what a part becomes, and remembers it. numbers: with room for kLimitNumbers before them. The count
  // is CharacterBpe::kNeedsText if BPE needs all of the text.
  UnigramModel::Measured encode_new(const Part& part, uint32_t* numbers) {
    if (encoder_.carries_sum_) {
      const UnigramModel::Measured measured =
          encoder_.unigram_.measure(part.text, part.size, unigram_scratch_, numbers);
      remember_with_limit(part, numbers, measured.count, measured.limit);
      return measured;
    }
    const size_t count = encoder_.is_unigram_
                             ? encoder_.unigram_.encode_word(part.text, part.size, unigram_scratch_, numbers)
                             : encoder_.bpe_.encode(part.text, part.size, false, bpe_scratch_, numbers);
    if (count != CharacterBpe::kNeedsText) remember(part, numbers, count);
    return {count, std::numeric_limits<float>::max()};
  }

  bool put_new(const Part& part) {
    uint32_t* const numbers = make_room(part.size + kLimitNumbers) + kLimitNumbers;
    const size_t count = encode_new(part, numbers).count;
    if (count == CharacterBpe::kNeedsText) return false;
    put(numbers, count);
    return true;
  }

  // Appends the cut of a part that holds up to some sum. False if the sum is beyond.
  bool put_if_certain(const Part& part, const uint32_t* numbers, size_t count, float limit) {
    if (!(std::fabs(sum_) <= std::min(limit, room(part.size)))) return false;
    const float* const scores = encoder_.unigram_.scores();
    for (size_t i = 0; i < count; ++i) sum_ += scores[numbers[i]];
    noted_limit_ = std::min(noted_limit_, limit - noted_reach_);
    put(numbers, count);
    return true;
  }

  void put_new_after_sum(const Part& part) {
    uint32_t* const numbers = make_room(part.size + kLimitNumbers) + kLimitNumbers;
    if (part.kept != Kept::kNot) {
      const UnigramModel::Measured measured = encode_new(part, numbers);
      if (put_if_certain(part, numbers, measured.count, measured.limit)) return;
    }
    const size_t count = encoder_.unigram_.encode(part.text, part.size, &sum_, unigram_scratch_, numbers);
    is_noting_ = false;
    put(numbers, count);
  }

  uint32_t* make_room(size_t num_numbers) {
    if (numbers_.size() < num_numbers) numbers_.resize(num_numbers);
    return numbers_.data();
  }

  // Appends tokens, for which there is room.
  void put(const uint32_t* numbers, size_t count) {
    const PieceVocabulary& vocabulary = encoder_.vocabulary_;
    if (is_noting_) note(numbers, count);
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

  void note(const uint32_t* numbers, size_t count) {
    noted_.insert(noted_.end(), numbers, numbers + count);
    // Unknown text may become one token with what is before it or after it.
    const PieceVocabulary& vocabulary = encoder_.vocabulary_;
    if (!vocabulary.has_bytes() &&
        std::find(numbers, numbers + count, vocabulary.unknown()) != numbers + count)
      is_noting_ = false;
  }

  const SentencepieceEncoder& encoder_;
  PretokenCache cache_;
  PaddedBytes gathered_;
  PaddedBytes normalized_;
  PaddedBytes stretch_;  // what is between plain words
  uint8_t spelled_[PaddedBytes::kPadding] = {};
  CharacterBpeScratch bpe_scratch_;
  UnigramModel::Scratch unigram_scratch_;
  std::vector<uint32_t> numbers_;
  // What the parts of a word become, if that is to be remembered.
  std::vector<uint32_t> noted_;
  float noted_limit_ = 0;  // of the absolute sum before the word
  float noted_reach_ = 0;  // of the word before the part in hand
  bool is_noting_ = false;
  Part parts_[kBatch];
  size_t num_parts_ = 0;
  Part word_parts_[kMaxWholeBytes];  // of a word that is encoded in parts

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

EncodeResult SentencepieceEncoder::encode_pieces(const TextBatch& texts, const Pieces& pieces, size_t threads,
                                                 EncodedBatch* encoded) {
  return workers_.encode(*this, texts, &pieces, threads, encoded);
}

}  // namespace tokcore
