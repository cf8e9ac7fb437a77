#include "encode/encoder.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include "encode/pretoken_cache.h"
#include "memory/hash.h"

namespace tokcore {

// What one thread needs: a cache, and room for the pre-tokens of a batch side by side, so that looking one up
// in the cache does not wait for the one before. Pre-tokens that the cache does not know leave a gap in the
// ids, until there are enough of them to be encoded side by side too.
class Encoder::Worker {
 public:
  Worker(const Encoder& encoder, size_t cache_bytes)
      : model_(*encoder.model_), scanner_(encoder.scanner_), cache_(cache_bytes) {
    remember_tokens();
  }

  size_t cache_bytes() const { return cache_.budget_bytes(); }

  // Appends the ids of texts [first, last) to ids. starts[i + 1] becomes the number of ids up to the end of
  // text i.
  EncodeResult encode(const TextBatch& texts, const Pieces* pieces, size_t first, size_t last, IdBuffer* ids,
                      int64_t* starts, int64_t* pretokens) {
    start(ids, starts);
    limit_ = texts.data + texts.data_size;
    for (size_t i = first; i < last; ++i) {
      const uint8_t* text = texts.data + texts.offsets[i];
      const size_t size = static_cast<size_t>(texts.offsets[i + 1] - texts.offsets[i]);
      const EncodeResult result = pieces != nullptr ? add_pieces(texts, *pieces, i, &pretokens[i])
                                                    : add_text(text, size, i, &pretokens[i]);
      if (result.status != EncodeStatus::kOk) return result;
      end_text(i);
    }
    finish();
    return {EncodeStatus::kOk, 0};
  }

  // The same for strings. They are written side by side as UTF-8 into a buffer that stays in a processor's
  // cache. Long strings that are UTF-8 already are read in place.
  EncodeResult encode_strings(const StringBatch& texts, size_t first, size_t last, IdBuffer* ids,
                              int64_t* starts, int64_t* pretokens) {
    start(ids, starts);
    for (size_t i = first; i < last;) {
      const StringView& string = texts.strings[i];
      if (string.encoding == Encoding::kUtf8 && string.num_units >= kGatheredBytes / 4) {
        const auto* text = static_cast<const uint8_t*>(string.data);
        limit_ = text + string.num_units;
        const EncodeResult result = add_text(text, string.num_units, i, &pretokens[i]);
        if (result.status != EncodeStatus::kOk) return result;
        end_text(i++);
        finish();
        continue;
      }
      // At least one string; a very long one makes the buffer grow while it is encoded.
      const size_t wanted = std::max(kGatheredBytes, max_utf8_bytes(string)) + kGatheredSlack;
      if (gathered_.size() < wanted) gathered_.resize(wanted);
      limit_ = gathered_.data() + gathered_.size();
      const uint8_t* const end = limit_ - kGatheredSlack;
      for (uint8_t* text = gathered_.data();
           i < last && max_utf8_bytes(texts.strings[i]) <= static_cast<size_t>(end - text); ++i) {
        uint8_t* const text_end = write_utf8(texts.strings[i], text);
        if (text_end == nullptr) return {EncodeStatus::kSurrogate, i};
        const EncodeResult result = add_text(text, static_cast<size_t>(text_end - text), i, &pretokens[i]);
        if (result.status != EncodeStatus::kOk) return result;
        end_text(i);
        text = text_end;
      }
      finish();
      if (gathered_.size() > kKeptBytes) gathered_ = {};
    }
    return {EncodeStatus::kOk, 0};
  }

 private:
  static constexpr size_t kGatheredBytes = size_t{1} << 16;
  static constexpr size_t kGatheredSlack =
      64;  // for the slack of write_utf8, and for keys read as whole blocks up to the end
  static constexpr size_t kKeptBytes = size_t{1} << 20;
  static constexpr size_t kBatch = 128;
  static constexpr size_t kCapacity = 2 * kBatch;
  static constexpr size_t kMaxEnds = 256;
  static constexpr size_t kEnoughUnknown = 64;
  static constexpr size_t kMaxUnknown = kEnoughUnknown + kCapacity;
  static constexpr size_t kEnoughGaps = 512;
  static constexpr size_t kMaxGaps = kEnoughGaps + kCapacity;
  static constexpr size_t kEnoughEnded = 512;
  static constexpr size_t kMaxEnded = kEnoughEnded + kMaxEnds;

  struct Pretoken {
    const uint8_t* text;
    size_t size;
  };
  struct EndOfText {
    size_t text;
    size_t count;  // pre-tokens in the batch up to the end of the text
  };
  struct EndedText {
    size_t text;
    size_t num_ids;   // up to the end of the text, without the ids that fill gaps
    size_t num_gaps;  // up to the end of the text
  };
  // A place for the ids of a piece that the cache did not know.
  struct Gap {
    size_t num_ids;  // before the gap, without the ids that fill gaps
    size_t piece;
  };
  void start(IdBuffer* ids, int64_t* starts) {
    ids_ = ids;
    starts_ = starts;
    count_ = num_ends_ = num_ended_ = num_unknown_ = num_gaps_ = 0;
    ++window_;
  }

  void end_text(size_t number) {
    if (num_ends_ == kMaxEnds) look_up();
    ends_[num_ends_++] = {number, count_};
  }

  // Encodes the waiting pre-tokens. Afterwards the worker refers to no text.
  void finish() {
    look_up();
    settle();
  }

  // Puts the vocabulary's tokens into the cache, the least common first, so that more common ones replace
  // them.
  void remember_tokens() {
    const PieceModel::Tokens tokens = model_.tokens();
    const PretokenCache::Entries entries = cache_.entries();
    struct Token {
      PretokenCache::Key key;
      int32_t id;
    };
    Token waiting[kBatch];
    size_t num_waiting = 0;
    const auto insert = [&] {
      for (size_t i = 0; i < num_waiting; ++i) cache_.insert(waiting[i].key, &waiting[i].id, 1);
      num_waiting = 0;
    };
    for (size_t i = tokens.num; i-- > 0;) {
      const size_t size = tokens.starts[i + 1] - tokens.starts[i];
      if (!tokens.is_own[i] || size > PretokenCache::kMaxShortBytes) continue;
      const PretokenCache::Key key =
          entries.key(tokens.data + tokens.starts[i], size, tokens.data + tokens.starts[tokens.num]);
      entries.prefetch(key);
      waiting[num_waiting++] = {key, tokens.ids[i]};
      if (num_waiting == kBatch) insert();
    }
    insert();
  }

  EncodeResult add_text(const uint8_t* text, size_t size, size_t number, int64_t* pretokens) {
    uint64_t ends[kBatch];
    *pretokens = 0;
    for (size_t begin = 0; begin < size;) {
      const size_t found = scanner_->scan(text, size, begin, ends, kBatch);
      if (size > PieceModel::kMaxPieceBytes && has_too_long(begin, ends, found))
        return {EncodeStatus::kPieceTooLong, number};
      add(text, begin, ends, found);
      begin = ends[found - 1];
      *pretokens += static_cast<int64_t>(found);
      if (count_ >= kBatch) look_up();
    }
    return {EncodeStatus::kOk, 0};
  }

  static bool has_too_long(uint64_t begin, const uint64_t* ends, size_t num_ends) {
    for (size_t i = 0; i < num_ends; begin = ends[i++]) {
      if (ends[i] - begin > PieceModel::kMaxPieceBytes) return true;
    }
    return false;
  }

  EncodeResult add_pieces(const TextBatch& texts, const Pieces& pieces, size_t number, int64_t* pretokens) {
    const int64_t first = pieces.firsts[number], last = pieces.firsts[number + 1];
    if (first < 0 || last < first || static_cast<uint64_t>(last) > pieces.num_ends) {
      return {EncodeStatus::kBadPieces, number};
    }
    int64_t begin = texts.offsets[number];
    for (int64_t i = first; i < last; ++i) {
      const int64_t end = pieces.ends[i];
      if (end <= begin || end > texts.offsets[number + 1]) return {EncodeStatus::kBadPieces, number};
      if (static_cast<uint64_t>(end - begin) > PieceModel::kMaxPieceBytes)
        return {EncodeStatus::kPieceTooLong, number};
      const auto piece_end = static_cast<uint64_t>(end);
      add(texts.data, static_cast<uint64_t>(begin), &piece_end, 1);
      begin = end;
      if (count_ >= kBatch) look_up();
    }
    if (begin != texts.offsets[number + 1]) return {EncodeStatus::kBadPieces, number};
    *pretokens = last - first;
    return {EncodeStatus::kOk, 0};
  }

  // Adds pre-tokens to the batch, at most kBatch of them; the first starts at `begin`.
  void add(const uint8_t* text, uint64_t begin, const uint64_t* ends, size_t num_ends) {
    const PretokenCache::Entries entries = cache_.entries();
    const bool inside = limit_ - (text + ends[num_ends - 1]) >= 16;
    Pretoken* const batch = batch_;
    PretokenCache::Key* const keys = keys_;
    size_t count = count_;
    for (size_t i = 0; i < num_ends; begin = ends[i++]) {
      const uint8_t* const at = text + begin;
      const size_t size = ends[i] - begin;
      if (size > PretokenCache::kMaxShortBytes) [[unlikely]] {
        count_ = count;
        add_in_parts(at, size);
        if (count_ + num_ends > kCapacity) look_up();
        count = count_;
        continue;
      }
      batch[count] = {at, size};
      keys[count] = inside ? entries.key_inside(at, size) : entries.key(at, size, limit_);
      entries.prefetch(keys[count++]);
    }
    count_ = count;
  }

  void add_in_parts(const uint8_t* text, size_t size) {
    for (size_t begin = 0, end; begin < size; begin = end) {
      end = model_.part_end(text, size, begin);
      add_one(text + begin, end - begin);
    }
  }

  void add_one(const uint8_t* text, size_t size) {
    if (count_ == kCapacity) look_up();
    batch_[count_] = {text, size};
    if (size <= PretokenCache::kMaxShortBytes) {
      keys_[count_] = cache_.entries().key(text, size, limit_);
      cache_.entries().prefetch(keys_[count_]);
    } else {
      keys_[count_] = cache_.long_key(text, std::min(size, PretokenCache::kMaxLongBytes), limit_);
    }
    ++count_;
  }

  // Appends the ids of the batch, with gaps for pre-tokens that the cache does not know.
  void look_up() {
    size_t done = 0;
    for (size_t i = 0; i < num_ends_; ++i) {
      look_up(done, ends_[i].count);
      done = ends_[i].count;
      ended_[num_ended_++] = {ends_[i].text, ids_->size(), num_gaps_};
    }
    look_up(done, count_);
    count_ = num_ends_ = 0;
    if (num_unknown_ >= kEnoughUnknown || num_gaps_ >= kEnoughGaps || num_ended_ >= kEnoughEnded) settle();
  }

  void look_up(size_t first, size_t last) {
    if (first == last) return;
    ids_->reserve_more(kRoom);
    int32_t* out = ids_->end();
    const PretokenCache::Entries entries = cache_.entries();
    for (size_t i = first; i < last; ++i) {
      const PretokenCache::Found found = entries.find(keys_[i]);
      if (found.entry != nullptr && found.count <= PretokenCache::kMaxShortIds) [[likely]] {
        // Copy all of them: the next pre-token overwrites the excess.
        std::memcpy(out, found.entry->ids, sizeof(found.entry->ids));
        out += found.count;
        continue;
      }
      ids_->set_end(out);
      look_further(batch_[i], keys_[i], found.entry);
      out = ids_->end();
    }
    ids_->set_end(out);
  }

  [[gnu::noinline]] void look_further(const Pretoken& pretoken, const PretokenCache::Key& key,
                                      const PretokenCache::Entry* entry) {
    PretokenCache::Ids known{nullptr, 0};
    if (entry != nullptr) {
      if (uint32_t piece; PretokenCache::in_promise(*entry, window_, &piece)) {
        gaps_[num_gaps_++] = {ids_->size(), piece};
        return;
      }
      if (entry->count() == PretokenCache::kInRing) known = cache_.in_ring(*entry);
    } else if (is_long(pretoken)) {
      known = cache_.find_long(pretoken.text, pretoken.size, key);
    }
    if (known.ids != nullptr) {
      ids_->reserve_more(known.count + kRoom);
      int32_t* out = ids_->end();
      for (size_t i = 0; i < known.count; i += 4) std::memcpy(out + i, known.ids + i, 4 * sizeof(int32_t));
      ids_->set_end(out + known.count);
      return;
    }
    if (pretoken.size <= PretokenCache::kMaxShortBytes)
      cache_.promise(key, window_, static_cast<uint32_t>(num_unknown_));
    gaps_[num_gaps_++] = {ids_->size(), num_unknown_};
    unknown_keys_[num_unknown_] = key;
    pieces_[num_unknown_] = {pretoken.text, pretoken.size, limit_, nullptr, 0, 0};
    ++num_unknown_;
  }

  static bool is_long(const auto& pretoken) {
    return pretoken.size > PretokenCache::kMaxShortBytes && pretoken.size <= PretokenCache::kMaxLongBytes;
  }

  // Encodes the unknown pre-tokens, fills the gaps, and writes where the texts end.
  void settle() {
    size_t room = 0;
    for (size_t i = 0; i < num_unknown_; ++i) room += pieces_[i].size;
    if (room > found_.capacity()) found_.set_capacity(room);
    for (size_t i = 0, start = 0; i < num_unknown_; start += pieces_[i].size, ++i)
      pieces_[i].ids = found_.data() + start;
    model_.encode(pieces_, num_unknown_, scratch_);
    size_t num_new = 0, ended = 0;
    for (size_t i = 0; i <= num_gaps_; ++i) {
      for (; ended < num_ended_ && ended_[ended].num_gaps == i; ++ended)
        starts_[ended_[ended].text + 1] = static_cast<int64_t>(ended_[ended].num_ids + num_new);
      if (i < num_gaps_) num_new += pieces_[gaps_[i].piece].count;
    }
    fill_gaps(num_new);
    for (size_t i = 0; i < num_unknown_; ++i) {
      const Piece& piece = pieces_[i];
      if (piece.size <= PretokenCache::kMaxShortBytes) {
        cache_.insert(unknown_keys_[i], piece.ids, piece.count);
      } else if (is_long(piece)) {
        cache_.insert_long(piece.text, piece.size, unknown_keys_[i], piece.ids, piece.count);
      }
    }
    num_unknown_ = num_gaps_ = num_ended_ = 0;
    ++window_;
  }

  // Goes from the last gap to the first, so that every id moves once.
  void fill_gaps(size_t num_new) {
    ids_->reserve_more(num_new);
    size_t end = ids_->size();
    ids_->set_end(ids_->end() + num_new);
    int32_t* ids = ids_->data();
    for (size_t i = num_gaps_; i-- > 0;) {
      const size_t gap = gaps_[i].num_ids;
      const Piece& piece = pieces_[gaps_[i].piece];
      std::memmove(ids + gap + num_new, ids + gap, (end - gap) * sizeof(int32_t));
      num_new -= piece.count;
      std::memcpy(ids + gap + num_new, piece.ids, piece.count * sizeof(int32_t));
      end = gap;
    }
  }

  // Room that look_up may write to without checks: kMaxShortIds per pre-token, and once more after long ones.
  static constexpr size_t kRoom = (kCapacity + 1) * PretokenCache::kMaxShortIds;

  const PieceModel& model_;
  const std::optional<Scanner>& scanner_;
  PretokenCache cache_;
  PieceScratch scratch_;
  IdBuffer found_;
  std::vector<uint8_t> gathered_;  // strings as UTF-8

  IdBuffer* ids_ = nullptr;
  int64_t* starts_ = nullptr;
  const uint8_t* limit_ = nullptr;
  size_t count_ = 0;
  size_t num_unknown_ = 0;
  size_t num_gaps_ = 0;
  size_t num_ended_ = 0;
  uint64_t window_ = 0;  // number of the current group of pre-tokens that settle() handles together
  size_t num_ends_ = 0;
  Pretoken batch_[kCapacity];
  PretokenCache::Key keys_[kCapacity];
  EndOfText ends_[kMaxEnds];
  PretokenCache::Key unknown_keys_[kMaxUnknown];
  Gap gaps_[kMaxGaps];
  Piece pieces_[kMaxUnknown];
  EndedText ended_[kMaxEnded];
};

Encoder::Encoder(std::optional<Scanner> scanner, Implementation implementation, size_t cache_bytes)
    : scanner_(scanner), implementation_(implementation), workers_(cache_bytes) {}

Encoder::~Encoder() = default;

VocabularyResult Encoder::build(const Vocabulary& vocabulary) {
  auto model = std::make_unique<BpeModel>(
      implementation_ == Implementation::kPortable ? merge_in_lanes_portable : merge_in_lanes_avx2);
  const VocabularyResult result = model->build(vocabulary);
  model_ = std::move(model);
  return result;
}

VocabularyResult Encoder::build(const WordpieceVocabulary& vocabulary) {
  auto model = std::make_unique<WordpieceModel>();
  const VocabularyResult result = model->build(vocabulary);
  model_ = std::move(model);
  return result;
}

VocabularyResult Encoder::build(const ByteUnigramVocabulary& vocabulary) {
  auto model = std::make_unique<ByteUnigram>();
  const VocabularyResult result = model->build(vocabulary);
  model_ = std::move(model);
  return result;
}

VocabularyResult Encoder::build(const SymbolVocabulary& vocabulary) {
  auto model = std::make_unique<SymbolBpe>();
  const VocabularyResult result = model->build(vocabulary);
  model_ = std::move(model);
  return result;
}

EncodeResult Encoder::encode(const TextBatch& texts, size_t threads, EncodedBatch* encoded) {
  if (!scanner_) return {EncodeStatus::kNoScanner, 0};
  return workers_.encode(*this, texts, nullptr, threads, encoded);
}

EncodeResult Encoder::encode_strings(const StringBatch& texts, size_t threads, EncodedBatch* encoded) {
  if (!scanner_) return {EncodeStatus::kNoScanner, 0};
  return workers_.encode_strings(*this, texts, threads, encoded);
}

EncodeResult Encoder::encode_string(const StringView& string, const TakeIds& take) {
  if (!scanner_) return {EncodeStatus::kNoScanner, 0};
  return workers_.encode_string(*this, string, take);
}

EncodeResult Encoder::encode_pieces(const TextBatch& texts, const Pieces& pieces, size_t threads,
                                    EncodedBatch* encoded) {
  return workers_.encode(*this, texts, &pieces, threads, encoded);
}

}  // namespace tokcore
