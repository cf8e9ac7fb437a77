#include "unigram/unigram_model.h"

#include <algorithm>
#include <cfloat>
#include <cmath>

namespace tokcore {
namespace {

// The best of the pieces of a list, and the sum of the second-best. Of equal sums the first counts.
struct Best {
  float sum, second;
  uint32_t index;
};

// sums: up to the place where the pieces end. No branch: which one it is cannot be predicted.
inline Best find_best(const CharacterTrie::Ends& list, const float* sums) {
  static_assert(CharacterTrie::kListed == 4);
  const float a = *(sums - list.widths[0]) + list.scores[0], b = *(sums - list.widths[1]) + list.scores[1];
  const float c = *(sums - list.widths[2]) + list.scores[2], d = *(sums - list.last_width()) + list.scores[3];
  const float left = std::max(a, b), right = std::max(c, d);
  const uint32_t is_right = right > left, at_left = b > a, at_right = 2 | static_cast<uint32_t>(d > c);
  return {std::max(left, right), std::max({std::min(left, right), std::min(a, b), std::min(c, d)}),
          at_left ^ ((at_left ^ at_right) & (0 - is_right))};
}

}  // namespace

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
  return trie_.build(entries, unknown_score_);
}

void UnigramModel::add(const uint8_t* text, size_t size, Scratch& scratch) const {
  const size_t used = scratch.starts.back();
  if (scratch.characters.size() <= used + size) scratch.characters.resize(2 * (used + size) + 64);
  scratch.starts.push_back(used + trie_.translate(text, size, scratch.characters.data() + used));
}

void UnigramModel::find_ends(Scratch& scratch) const {
  if (scratch.ends.size() < scratch.starts.back()) scratch.ends.resize(scratch.characters.size());
  for (size_t i = 0; i < scratch.num_texts(); ++i)
    scratch.walkers.push_back(trie_.walker(scratch.starts[i], scratch.starts[i + 1]));
  trie_.walk(&scratch.walkers, scratch.characters.data(), scratch.ends.data());
  make_room(scratch);
}

void UnigramModel::make_room(Scratch& scratch) {
  const size_t num_places = scratch.starts.back() + scratch.num_texts();
  if (scratch.ended.size() < num_places) {
    scratch.ended.resize(2 * num_places);
    scratch.gaps.resize(2 * num_places);
  }
  size_t longest = 0;
  for (size_t i = 0; i < scratch.num_texts(); ++i) longest = std::max(longest, scratch.num_characters(i));
  if (scratch.sums.size() <= longest) {
    scratch.sums.resize(2 * longest + 64);
    scratch.exact_sums.resize(scratch.sums.size());
    scratch.tokens.resize(scratch.sums.size());
  }
}

template <typename Offer>
void UnigramModel::offer_all(uint32_t list, const Offer& offer) const {
  for (;; list = trie_.next_list(list)) {
    const CharacterTrie::Ends& ends = trie_.lists()[list];
    for (uint32_t i = 0; i < CharacterTrie::kListed && ends.scores[i] != CharacterTrie::kNoScore; ++i) {
      const uint32_t slot = list * CharacterTrie::kListed + i;
      offer(trie_.width(slot), ends.scores[i], slot);
    }
    if (!ends.goes_on()) return;
  }
}

size_t UnigramModel::encode(size_t index, const uint8_t* text, size_t size, float* sum, Scratch& scratch,
                            uint32_t* numbers) const {
  const size_t count = scratch.num_characters(index);
  const uint32_t* const ends = scratch.ends.data() + scratch.starts[index];
  const CharacterTrie::Ends* const lists = trie_.lists();
  float* const sums = scratch.sums.data();
  uint32_t* const ended = scratch.ended.data() + scratch.first_place(index);
  sums[0] = *sum;
  scratch.restarts.clear();
  size_t reach = 0;  // up to which place restarts matter
  for (size_t end = 1; end <= count; ++end) {
    const float here = sums[end - 1];
    if (here < -kMaxSum || here > kMaxSum) [[unlikely]] {
      scratch.restarts.push_back({end - 1, here});
      sums[end - 1] = 0;
      reach = end - 1 + max_piece_characters_;
    }
    uint32_t list = ends[end - 1];
    if (end <= reach) [[unlikely]] {
      ended[end] = find_best_after_restarts(end, list, scratch);
      continue;
    }
    Best best = find_best(lists[list], sums + end);
    uint32_t slot = list * CharacterTrie::kListed + best.index;
    while (lists[list].goes_on()) [[unlikely]] {
      list = trie_.next_list(list);
      const Best other = find_best(lists[list], sums + end);
      if (!(other.sum > best.sum)) continue;
      best = other;
      slot = list * CharacterTrie::kListed + best.index;
    }
    sums[end] = best.sum;
    ended[end] = slot;
    __builtin_prefetch(&trie_.pieces()[slot]);
  }
  *sum = sums[count];
  return write(index, text, size, scratch, numbers).count;
}

uint32_t UnigramModel::find_best_after_restarts(size_t end, uint32_t list, Scratch& scratch) const {
  // Sums of what began before a restart are rounded before it, and then made smaller.
  const Restart* const last = scratch.restarts.data() + scratch.restarts.size();
  const Restart* next = last;
  while (next != scratch.restarts.data() && end - next[-1].place <= max_piece_characters_) --next;
  float best = CharacterTrie::kNoScore;
  uint32_t best_slot = 0;
  offer_all(list, [&](size_t width, float score, uint32_t slot) {
    for (; next != last && next->place <= end - width; ++next) best -= next->sum;
    const float sum = scratch.sums[end - width] + score;
    if (!(sum > best)) return;
    best = sum;
    best_slot = slot;
  });
  for (; next != last; ++next) best -= next->sum;
  scratch.sums[end] = best;
  return best_slot;
}

void UnigramModel::find_cuts(Scratch& scratch) const {
  const CharacterTrie::Ends* const lists = trie_.lists();
  const uint32_t* const pieces = trie_.pieces();
  float* const sums = scratch.sums.data();
  for (size_t index = 0; index < scratch.num_texts(); ++index) {
    const size_t count = scratch.num_characters(index);
    const uint32_t* const ends = scratch.ends.data() + scratch.starts[index];
    float* const gaps = scratch.gaps.data() + scratch.first_place(index);
    uint32_t* const ended = scratch.ended.data() + scratch.first_place(index);
    sums[0] = 0;
    for (size_t end = 1; end <= count; ++end) {
      uint32_t list = ends[end - 1];
      Best best = find_best(lists[list], sums + end);
      uint32_t slot = list * CharacterTrie::kListed + best.index;
      while (lists[list].goes_on()) [[unlikely]] {
        list = trie_.next_list(list);
        const Best other = find_best(lists[list], sums + end);
        best.second = std::max({best.second, other.second, std::min(best.sum, other.sum)});
        if (!(other.sum > best.sum)) continue;
        best.sum = other.sum;
        slot = list * CharacterTrie::kListed + other.index;
      }
      sums[end] = best.sum;
      gaps[end] = best.sum - best.second;
      ended[end] = slot;
      __builtin_prefetch(&pieces[slot]);
    }
  }
}

void UnigramModel::find_word_cuts(Scratch& scratch) const {
  double* const sums = scratch.exact_sums.data();
  for (size_t index = 0; index < scratch.num_texts(); ++index) {
    const uint32_t* const ends = scratch.ends.data() + scratch.starts[index];
    uint32_t* const ended = scratch.ended.data() + scratch.first_place(index);
    sums[0] = 0;
    for (size_t end = 1; end <= scratch.num_characters(index); ++end) {
      double best = -std::numeric_limits<double>::infinity();
      offer_all(ends[end - 1], [&](size_t width, float, uint32_t slot) {
        const uint32_t piece = trie_.pieces()[slot];
        const double sum =
            sums[end - width] + (piece == kUnknown ? exact_unknown_score_ : vocabulary_->exact_score(piece));
        if (!(sum > best)) return;
        best = sum;
        ended[end] = slot;
      });
      sums[end] = best;
    }
  }
}

UnigramModel::Measured UnigramModel::measure(size_t index, const uint8_t* text, size_t size, Scratch& scratch,
                                             uint32_t* numbers) const {
  const Written written = write(index, text, size, scratch, numbers);
  if (!written.is_certain && !vocabulary_->has_bytes()) return {written.count, -1};
  // Before it ends as the best cut does, another cut has a place in common with it, where it is worse by the
  // gap at least. A sum of n numbers is rounded n times, each time by 2^-24 of a sum at most. Two sums are
  // compared, here and anywhere.
  const double rounding = static_cast<double>(scratch.num_characters(index)) * 0x1.001p-23;
  const double limit = double{written.gap} / rounding - 2 * static_cast<double>(reach(size)) - 1;
  return {written.count, static_cast<float>(std::clamp(limit, -1.0, static_cast<double>(FLT_MAX)))};
}

UnigramModel::Written UnigramModel::write(size_t index, const uint8_t* text, size_t size, Scratch& scratch,
                                          uint32_t* numbers) const {
  const uint32_t* const ended = scratch.ended.data() + scratch.first_place(index);
  const float* const gaps = scratch.gaps.data() + scratch.first_place(index);
  uint32_t* const tokens = scratch.tokens.data();
  const uint32_t* const pieces = trie_.pieces();
  Written written{0, std::numeric_limits<float>::infinity(), true};
  bool has_unknown = false;
  size_t count = 0;
  for (size_t end = scratch.num_characters(index); end > 0;) {
    const uint32_t slot = ended[end];
    const uint32_t piece = tokens[count++] = pieces[slot];
    has_unknown |= piece == kUnknown;
    written.gap = std::min(written.gap, gaps[end]);
    end -= trie_.width(slot);
  }
  if (!has_unknown) {
    for (size_t i = 0; i < count; ++i) numbers[i] = tokens[count - 1 - i];
    written.count = count;
    return written;
  }
  NumberWriter writer(*vocabulary_, numbers);
  for (size_t i = count, at = 0; i-- > 0;) {
    if (tokens[i] == kUnknown) {
      const size_t width = character_bytes(text + at, size - at);
      writer.put_unknown(text + at, width);
      at += width;
      written.is_certain = written.is_certain && (i + 1 == count || tokens[i + 1] != kUnknown);
    } else {
      writer.put(tokens[i]);
      at += vocabulary_->text(tokens[i]).size();
    }
  }
  written.count = writer.count();
  return written;
}

}  // namespace tokcore
