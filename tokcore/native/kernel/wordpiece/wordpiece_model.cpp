#include "wordpiece/wordpiece_model.h"

#include <algorithm>
#include <bit>
#include <type_traits>

#include "scan/character.h"
#include "text/bert_tables.h"

namespace tokcore {
namespace {

// Whether the pre-token has more characters than the limit. A malformed byte is one character.
bool has_more_characters(const uint8_t* text, size_t size, uint64_t limit) {
  if (size <= limit) return false;
  uint64_t count = 0;
  for (size_t i = 0; i < size; i += character_at(text, size, i).size) {
    if (++count > limit) return true;
  }
  return false;
}

bool is_space(const uint8_t* text, size_t size) {
  for (size_t i = 0; i < size;) {
    const Character c = character_at(text, size, i);
    if (c.code_point == kNoCodePoint || bert::class_of(c.code_point) != bert::kWhite) return false;
    i += c.size;
  }
  return true;
}

// Takes the longest match without being asked.
struct TakeLongest {};

}  // namespace

void WordpieceModel::Trie::reset(size_t num_bytes) {
  const size_t num_slots = std::bit_ceil(std::max<size_t>(16, 2 * (num_bytes + 2)));
  edges_.assign(num_slots, {0, kNone});
  mask_ = num_slots - 1;
  shift_ = 64 - static_cast<unsigned>(std::countr_zero(num_slots));
  ids_.assign(2, kNoId);
}

uint32_t WordpieceModel::Trie::add(uint32_t node, uint8_t byte) {
  const uint64_t edge = uint64_t{node} << 8 | byte;
  size_t slot = first_slot(edge);
  for (; edges_[slot].child != kNone; slot = (slot + 1) & mask_) {
    if (edges_[slot].edge == edge) return edges_[slot].child;
  }
  edges_[slot] = {edge, static_cast<uint32_t>(ids_.size())};
  ids_.push_back(kNoId);
  return edges_[slot].child;
}

template <typename Choose>
void WordpieceModel::encode_choosing(Piece& piece, Choose choose) const {
  if (drops_space_ && is_space(piece.text, piece.size)) {
    piece.count = 0;
    return;
  }
  const bool is_too_long =
      max_characters_ != 0 && has_more_characters(piece.text, piece.size, max_characters_);
  if (!is_too_long && match(piece, choose)) return;
  piece.ids[0] = unknown_id_;
  piece.count = 1;
}

template <typename Choose>
bool WordpieceModel::match(Piece& piece, Choose choose) const {
  piece.count = 0;
  for (size_t begin = 0; begin < piece.size;) {
    const uint32_t root = begin == 0 ? 0 : 1;
    size_t limit = piece.size;  // matches end there at most
    for (;;) {
      uint32_t node = root;
      int32_t found = kNoId;
      size_t end = begin;
      for (size_t i = begin; i < limit && (node = trie_.child(node, piece.text[i])) != Trie::kNone; ++i) {
        if (trie_.id(node) == kNoId) continue;
        found = trie_.id(node);
        end = i + 1;
      }
      if (found == kNoId) return false;
      if constexpr (!std::is_same_v<Choose, TakeLongest>) {
        if (!choose(end - begin == character_at(piece.text, piece.size, begin).size)) {
          limit = end - 1;
          continue;
        }
      }
      piece.ids[piece.count++] = found;
      begin = end;
      break;
    }
  }
  return true;
}

VocabularyResult WordpieceModel::build(const WordpieceVocabulary& vocabulary) {
  constexpr size_t kMaxBytes = size_t{1} << 30;
  if (vocabulary.num_tokens > 0 && vocabulary.offsets[0] < 0) return {VocabularyStatus::kBadOffsets, 0};
  uint64_t total = 0;
  for (size_t i = 0; i < vocabulary.num_tokens; ++i) {
    const int64_t begin = vocabulary.offsets[i], end = vocabulary.offsets[i + 1];
    if (end < begin || static_cast<uint64_t>(end) > vocabulary.data_size)
      return {VocabularyStatus::kBadOffsets, i};
    if (end == begin) return {VocabularyStatus::kEmptyToken, i};
    if (vocabulary.token_ids[i] < 0) return {VocabularyStatus::kNegativeId, i};
    total += static_cast<uint64_t>(end - begin);
  }
  if (total > kMaxBytes) return {VocabularyStatus::kTooLarge, total};
  if (vocabulary.unknown_id < 0) return {VocabularyStatus::kNegativeId, vocabulary.num_tokens};

  trie_.reset(total);
  starts_.assign(1, 0);
  for (size_t i = 0; i < vocabulary.num_tokens; ++i) {
    const uint8_t* const begin = vocabulary.data + vocabulary.offsets[i];
    const uint8_t* const end = vocabulary.data + vocabulary.offsets[i + 1];
    uint32_t node = vocabulary.continues[i] != 0 ? 1 : 0;
    for (const uint8_t* at = begin; at < end; ++at) node = trie_.add(node, *at);
    if (trie_.id(node) != kNoId) return {VocabularyStatus::kDuplicateToken, i};
    trie_.id(node) = vocabulary.token_ids[i];
    if (vocabulary.continues[i] != 0) continue;
    bytes_.insert(bytes_.end(), begin, end);
    starts_.push_back(bytes_.size());
    ids_.push_back(vocabulary.token_ids[i]);
  }
  unknown_id_ = vocabulary.unknown_id;
  max_characters_ = vocabulary.max_characters;
  drops_space_ = vocabulary.drops_space;
  is_own_.resize(ids_.size());
  for (size_t i = 0; i < ids_.size(); ++i) {
    const uint8_t* const text = bytes_.data() + starts_[i];
    const size_t size = starts_[i + 1] - starts_[i];
    std::vector<int32_t> ids(size);
    Piece piece{text, size, text + size, ids.data(), 0, 0};
    encode_choosing(piece, TakeLongest{});
    is_own_[i] = piece.count == 1 && ids[0] == ids_[i];
  }
  return {VocabularyStatus::kOk, 0};
}

void WordpieceModel::encode(Piece* pieces, size_t num_pieces, PieceScratch&) const {
  for (size_t i = 0; i < num_pieces; ++i) encode_choosing(pieces[i], TakeLongest{});
}

void WordpieceModel::encode(Piece& piece, const Chance& dropout, Draws& draws) const {
  encode_choosing(piece, [&](bool is_character) { return is_character || !dropout.happens(draws); });
}

}  // namespace tokcore
