#include "sentencepiece/piece_vocabulary.h"

#include <algorithm>
#include <cmath>

namespace tokcore {

VocabularyResult PieceVocabulary::build(const PieceList& list) {
  constexpr size_t kMaxBytes = size_t{1} << 28;
  uint64_t total = 0;
  for (size_t i = 0; i < list.num_pieces; ++i) {
    const int64_t begin = list.offsets[i], end = list.offsets[i + 1];
    if (begin < 0 || end < begin || static_cast<uint64_t>(end) > list.data_size)
      return {VocabularyStatus::kBadOffsets, i};
    if (end == begin) return {VocabularyStatus::kEmptyToken, i};
    if (list.ids[i] < 0) return {VocabularyStatus::kNegativeId, i};
    if (!std::isfinite(list.scores[i])) return {VocabularyStatus::kNotFinite, i};
    total += static_cast<uint64_t>(end - begin);
  }
  if (total > kMaxBytes) return {VocabularyStatus::kTooLarge, total};
  starts_.assign(1, 0);
  for (size_t i = 0; i < list.num_pieces; ++i) {
    bytes_.insert(bytes_.end(), list.data + list.offsets[i], list.data + list.offsets[i + 1]);
    starts_.push_back(bytes_.size());
  }
  scores_.assign(list.scores, list.scores + list.num_pieces);
  types_.assign(list.types, list.types + list.num_pieces);
  ids_.assign(list.ids, list.ids + list.num_pieces);
  ids_.push_back(list.unknown_id);
  has_bytes_ = list.byte_ids != nullptr;
  if (has_bytes_) ids_.insert(ids_.end(), list.byte_ids, list.byte_ids + 256);

  std::vector<uint32_t> order(list.num_pieces);
  for (uint32_t i = 0; i < order.size(); ++i) order[i] = i;
  std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return text(a) < text(b); });
  for (size_t i = 1; i < order.size(); ++i) {
    if (text(order[i - 1]) == text(order[i]))
      return {VocabularyStatus::kDuplicateToken, std::max(order[i - 1], order[i])};
  }
  return {VocabularyStatus::kOk, 0};
}

}  // namespace tokcore
