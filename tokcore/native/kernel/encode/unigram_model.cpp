#include "encode/unigram_model.h"

#include <algorithm>
#include <cfloat>
#include <cmath>

namespace tokcore {
bool UnigramModel::build(const PieceVocabulary& vocabulary) {
  vocabulary_ = &vocabulary;
  std::vector<CharacterTrie::Entry> entries;
  scores_.assign(vocabulary.num_pieces() + 257, 0);
  float lowest = FLT_MAX;
  double exact_lowest = DBL_MAX;
  for (uint32_t piece = 0; piece < vocabulary.num_pieces(); ++piece) {
    if (vocabulary.is(piece, PieceType::kUnused)) continue;
    float score = vocabulary.score(piece);
    exact_lowest = std::min(exact_lowest, vocabulary.exact_score(piece));
    if (vocabulary.is(piece, PieceType::kNormal)) lowest = std::min(lowest, score);
    if (vocabulary.is(piece, PieceType::kUserDefined)) {
      // Rounded once, from a double.
      score = static_cast<float>(0.1 * static_cast<double>(vocabulary.text(piece).size() - 1));
    }
    score = std::clamp(score, -kMaxScore, kMaxScore);
    scores_[piece] = score;
    max_score_ = std::max(max_score_, std::fabs(score));
    const auto* const text = reinterpret_cast<const uint8_t*>(vocabulary.text(piece).data());
    size_t width = 0;
    for (size_t i = 0; i < vocabulary.text(piece).size(); ++width)
      i += character_bytes(text + i, vocabulary.text(piece).size() - i);
    max_piece_characters_ = std::max(max_piece_characters_, width);
    entries.push_back({vocabulary.text(piece), piece, score});
  }
  unknown_score_ = std::max(lowest, -kMaxScore) - kUnknownPenalty;
  exact_unknown_score_ = exact_lowest - double{kUnknownPenalty};
  max_score_ = std::max(max_score_, std::fabs(unknown_score_));
  scores_[vocabulary.unknown()] = unknown_score_;
  for (unsigned byte = 0; byte < 256; ++byte) {
    const bool is_first = (byte & 0xC0) != 0x80;
    scores_[vocabulary.byte(static_cast<uint8_t>(byte))] = is_first ? unknown_score_ : 0;
  }
  return trie_.build(entries);
}

size_t UnigramModel::begin(const uint8_t* text, size_t size, Scratch& scratch) const {
  if (scratch.characters.size() < size + 1) {
    scratch.characters.resize(size + 1);
    scratch.sums.resize(size + 1);
    scratch.seconds.resize(size + 1);
    scratch.exact_sums.resize(size + 1);
    scratch.ended.resize(size + 1);
  }
  return trie_.translate(text, size, scratch.characters.data());
}

template <typename Offer>
void UnigramModel::offer_all(size_t end, uint32_t node, const Offer& offer) const {
  const CharacterTrie::Unit* const units = trie_.units();
  size_t start = end;
  for (uint32_t place = trie_.longest(node); place != CharacterTrie::kRoot; place = units[place].shorter) {
    start = end - units[place].num_characters;
    offer(start, units[place].score, place);
  }
  if (start != end - 1) offer(end - 1, unknown_score_, kUnknown);
}

size_t UnigramModel::encode(const uint8_t* text, size_t size, float* sum, Scratch& scratch,
                            uint32_t* numbers) const {
  const size_t count = begin(text, size, scratch);
  float* const sums = scratch.sums.data();
  sums[0] = *sum;
  scratch.restarts.clear();
  size_t reach = 0;  // up to which place restarts matter
  uint32_t node = CharacterTrie::kRoot;
  for (size_t end = 1; end <= count; ++end) {
    node = trie_.next(node, scratch.characters[end - 1]);
    const float here = sums[end - 1];
    if (here < -kMaxSum || here > kMaxSum) [[unlikely]] {
      scratch.restarts.push_back({end - 1, here});
      sums[end - 1] = 0;
      reach = end - 1 + max_piece_characters_;
    }
    Best<float> best;
    if (end <= reach) [[unlikely]] {
      best = find_best_after_restarts(end, node, scratch);
    } else {
      offer_all(end, node,
                [&](size_t start, float score, uint32_t place) { best.offer(sums[start] + score, place); });
    }
    sums[end] = best.sum;
    scratch.ended[end] = best.place;
  }
  *sum = sums[count];
  bool is_certain;
  return write(text, size, count, scratch, numbers, &is_certain);
}

UnigramModel::Best<float> UnigramModel::find_best_after_restarts(size_t end, uint32_t node,
                                                                 const Scratch& scratch) const {
  // Sums of what began before a restart are rounded before it, and then made smaller.
  const Restart* const last = scratch.restarts.data() + scratch.restarts.size();
  const Restart* next = last;
  while (next != scratch.restarts.data() && end - next[-1].place <= max_piece_characters_) --next;
  Best<float> best;
  offer_all(end, node, [&](size_t start, float score, uint32_t place) {
    for (; next != last && next->place <= start; ++next) best.sum -= next->sum;
    best.offer(scratch.sums[start] + score, place);
  });
  for (; next != last; ++next) best.sum -= next->sum;
  return best;
}

UnigramModel::Measured UnigramModel::measure(const uint8_t* text, size_t size, Scratch& scratch,
                                             uint32_t* numbers) const {
  const size_t count = begin(text, size, scratch);
  float* const sums = scratch.sums.data();
  float* const seconds = scratch.seconds.data();
  sums[0] = 0;
  seconds[0] = CharacterTrie::kNoScore;
  uint32_t node = CharacterTrie::kRoot;
  for (size_t end = 1; end <= count; ++end) {
    node = trie_.next(node, scratch.characters[end - 1]);
    Best<float> best;
    float second = CharacterTrie::kNoScore;
    offer_all(end, node, [&](size_t start, float score, uint32_t place) {
      const float sum = sums[start] + score;
      second = std::max({second, seconds[start] + score, std::min(sum, best.sum)});
      best.offer(sum, place);
    });
    sums[end] = best.sum;
    seconds[end] = second;
    scratch.ended[end] = best.place;
  }
  bool is_certain;
  const size_t num_tokens = write(text, size, count, scratch, numbers, &is_certain);
  if (!is_certain && !vocabulary_->has_bytes()) return {num_tokens, -1};
  // A sum of n numbers is rounded n times, each time by 2^-24 of a sum at most. Two sums are compared, here
  // and anywhere.
  const double margin = double{sums[count]} - double{seconds[count]};
  const double rounding = static_cast<double>(count) * 0x1.001p-23;
  const double limit = margin / rounding - 2 * static_cast<double>(reach(size)) - 1;
  return {num_tokens, static_cast<float>(std::clamp(limit, -1.0, static_cast<double>(FLT_MAX)))};
}

size_t UnigramModel::encode_word(const uint8_t* text, size_t size, Scratch& scratch,
                                 uint32_t* numbers) const {
  const size_t count = begin(text, size, scratch);
  double* const sums = scratch.exact_sums.data();
  sums[0] = 0;
  uint32_t node = CharacterTrie::kRoot;
  for (size_t end = 1; end <= count; ++end) {
    node = trie_.next(node, scratch.characters[end - 1]);
    Best<double> best;
    offer_all(end, node, [&](size_t start, float, uint32_t place) {
      const double score =
          place == kUnknown ? exact_unknown_score_ : vocabulary_->exact_score(trie_.units()[place].piece);
      best.offer(sums[start] + score, place);
    });
    sums[end] = best.sum;
    scratch.ended[end] = best.place;
  }
  bool is_certain;
  return write(text, size, count, scratch, numbers, &is_certain);
}

size_t UnigramModel::write(const uint8_t* text, size_t size, size_t num_characters, Scratch& scratch,
                           uint32_t* numbers, bool* is_certain) const {
  if (scratch.tokens.size() < num_characters) scratch.tokens.resize(num_characters);
  uint32_t* const tokens = scratch.tokens.data();
  size_t count = 0;
  bool has_unknown = false;
  for (size_t end = num_characters; end > 0;) {
    const uint32_t place = tokens[count++] = scratch.ended[end];
    has_unknown |= place == kUnknown;
    end -= place == kUnknown ? 1 : trie_.units()[place].num_characters;
  }
  *is_certain = true;
  if (!has_unknown) {
    for (size_t i = 0; i < count; ++i) numbers[i] = trie_.units()[tokens[count - 1 - i]].piece;
    return count;
  }
  NumberWriter writer(*vocabulary_, numbers);
  for (size_t i = count, at = 0; i-- > 0;) {
    if (tokens[i] == kUnknown) {
      const size_t width = character_bytes(text + at, size - at);
      writer.put_unknown(text + at, width);
      at += width;
      *is_certain = *is_certain && (i + 1 == count || tokens[i + 1] != kUnknown);
    } else {
      const uint32_t piece = trie_.units()[tokens[i]].piece;
      writer.put(piece);
      at += vocabulary_->text(piece).size();
    }
  }
  return writer.count();
}

}  // namespace tokcore
