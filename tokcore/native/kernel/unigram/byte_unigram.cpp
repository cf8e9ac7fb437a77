#include "unigram/byte_unigram.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <string_view>
#include <utility>

namespace tokcore {
namespace {

constexpr double kNone = -std::numeric_limits<double>::infinity();  // nothing ends there

}  // namespace

VocabularyResult ByteUnigram::build(const ByteUnigramVocabulary& vocabulary) {
  constexpr size_t kMaxBytes = size_t{1} << 30;
  if (vocabulary.num_tokens > 0 && vocabulary.offsets[0] < 0) return {VocabularyStatus::kBadOffsets, 0};
  uint64_t total = 0;
  bool has_byte[256] = {};
  for (size_t i = 0; i < vocabulary.num_tokens; ++i) {
    const int64_t begin = vocabulary.offsets[i], end = vocabulary.offsets[i + 1];
    if (end < begin || static_cast<uint64_t>(end) > vocabulary.data_size)
      return {VocabularyStatus::kBadOffsets, i};
    if (end == begin) return {VocabularyStatus::kEmptyToken, i};
    if (vocabulary.token_ids[i] < 0) return {VocabularyStatus::kNegativeId, i};
    if (!(std::fabs(vocabulary.scores[i]) <= kMaxScore)) return {VocabularyStatus::kNotFinite, i};
    total += static_cast<uint64_t>(end - begin);
    if (end - begin == 1) has_byte[vocabulary.data[begin]] = true;
  }
  if (total > kMaxBytes) return {VocabularyStatus::kTooLarge, total};
  for (size_t byte = 0; byte < 256; ++byte) {
    if (!has_byte[byte]) return {VocabularyStatus::kMissingByte, byte};
  }
  starts_.assign(1, 0);
  for (size_t i = 0; i < vocabulary.num_tokens; ++i) {
    bytes_.insert(bytes_.end(), vocabulary.data + vocabulary.offsets[i],
                  vocabulary.data + vocabulary.offsets[i + 1]);
    starts_.push_back(bytes_.size());
  }
  ids_.assign(vocabulary.token_ids, vocabulary.token_ids + vocabulary.num_tokens);
  std::vector<ScoreTrie::Entry> entries;
  for (uint32_t i = 0; i < ids_.size(); ++i) {
    const std::string_view text(reinterpret_cast<const char*>(bytes_.data()) + starts_[i],
                                starts_[i + 1] - starts_[i]);
    const double rough = std::clamp(vocabulary.scores[i], -1e30, 1e30);
    entries.push_back({text, i, static_cast<float>(rough)});
  }
  std::vector<uint32_t> order(ids_.size());
  std::iota(order.begin(), order.end(), 0U);
  std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    return std::pair(entries[a].text, a) < std::pair(entries[b].text, b);
  });
  for (size_t i = 1; i < order.size(); ++i) {
    if (entries[order[i - 1]].text == entries[order[i]].text)
      return {VocabularyStatus::kDuplicateToken, order[i]};
  }
  if (!trie_.build(std::move(entries))) return {VocabularyStatus::kTrieTooLarge, ids_.size()};
  scores_.assign(trie_.num_units(), kNone);
  for (uint32_t at = 0; at < scores_.size(); ++at) {
    if (trie_.units()[at].score != ScoreTrie::kNoScore)
      scores_[at] = vocabulary.scores[trie_.ended(at).piece];
  }
  is_own_.resize(ids_.size());
  PieceScratch scratch;
  for (size_t i = 0; i < ids_.size(); ++i) {
    const uint8_t* const text = bytes_.data() + starts_[i];
    const size_t size = starts_[i + 1] - starts_[i];
    std::vector<int32_t> ids(size);
    Piece piece{text, size, text + size, ids.data(), 0, 0};
    encode(piece, scratch);
    is_own_[i] = piece.count == 1 && ids[0] == ids_[i];
  }
  return {VocabularyStatus::kOk, 0};
}

void ByteUnigram::encode(Piece* pieces, size_t num_pieces, PieceScratch& scratch) const {
  for (size_t i = 0; i < num_pieces; ++i) encode(pieces[i], scratch);
}

void ByteUnigram::encode(Piece& piece, PieceScratch& scratch) const {
  const size_t size = piece.size;
  scratch.sums.assign(size + 1, kNone);
  if (scratch.ended.size() <= size) scratch.ended.resize(size + 1);
  double* const sums = scratch.sums.data();
  uint32_t* const ended = scratch.ended.data();
  const ScoreTrie::Unit* const units = trie_.units();
  sums[0] = 0;
  for (size_t start = 0; start < size; ++start) {
    const double here = sums[start];
    uint32_t first = trie_.root();
    for (size_t end = start; end < size;) {
      const uint32_t at = first + piece.text[end];
      const ScoreTrie::Unit unit = units[at];
      if (!unit.is_reached_by(piece.text[end])) break;
      ++end;
      first = unit.first();
      const double sum = here + scores_[at];
      const bool is_better = sum > sums[end];
      ended[end] = is_better ? at : ended[end];
      sums[end] = is_better ? sum : sums[end];
    }
  }
  size_t count = 0;
  for (size_t end = size; end > 0; end -= trie_.ended(ended[end]).size) ++count;
  piece.count = count;
  for (size_t end = size; end > 0;) {
    const ScoreTrie::Ended& token = trie_.ended(ended[end]);
    piece.ids[--count] = ids_[token.piece];
    end -= token.size;
  }
}

}  // namespace tokcore
