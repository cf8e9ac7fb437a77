#include "encode/unigram_model.h"

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

namespace tokcore {
namespace {

using Floats = float __attribute__((vector_size(16)));
using Numbers = uint32_t __attribute__((vector_size(16)));

template <typename Vector, typename Number>
Vector load(const Number* from) {
  Vector vector;
  std::memcpy(&vector, from, sizeof(vector));
  return vector;
}

template <typename Number, typename Vector>
void store(Number* to, Vector vector) {
  std::memcpy(to, &vector, sizeof(vector));
}

}  // namespace

bool UnigramModel::build(const PieceVocabulary& vocabulary) {
  vocabulary_ = &vocabulary;
  std::vector<ScoreTrie::Entry> entries;
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
    max_piece_bytes_ = std::max(max_piece_bytes_, vocabulary.text(piece).size());
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
  stride_ = (max_piece_bytes_ + kStep - 1) / kStep * kStep;
  return trie_.build(std::move(entries));
}

size_t UnigramModel::find_pieces(const uint8_t* text, size_t size, size_t start, Lane lanes[kLanes],
                                 Scratch& scratch) const {
  const ScoreTrie::Unit* const units = trie_.units();
  float* const scores = scratch.found_scores.data();
  uint32_t* const places = scratch.found_units.data();
  uint32_t firsts[kLanes];
  for (size_t lane = 0; lane < kLanes; ++lane) {
    const size_t width = start < size ? character_bytes(text + start, size - start) : 0;
    lanes[lane] = {start, width};
    firsts[lane] = width != 0 ? trie_.root() : ScoreTrie::kDead;
    start += width;
  }
  size_t longest = 0;
  for (uint32_t any = 1; any != 0; ++longest) {
    any = 0;
    for (size_t lane = 0; lane < kLanes; ++lane) {
      const size_t at = lanes[lane].start + longest;
      const uint8_t byte = text[at];
      const uint32_t place = firsts[lane] + byte;
      const ScoreTrie::Unit unit = units[place];
      const bool goes_on = unit.is_reached_by(byte) & (at < size);
      scores[lane * stride_ + longest] = goes_on ? unit.score : ScoreTrie::kNoScore;
      places[lane * stride_ + longest] = place;
      firsts[lane] = goes_on ? unit.first() : ScoreTrie::kDead;
      any |= firsts[lane];
    }
  }
  for (size_t lane = 0; lane < kLanes; ++lane) {
    for (size_t i = longest; i % kStep != 0; ++i) scores[lane * stride_ + i] = ScoreTrie::kNoScore;
  }
  return longest;
}

// Whole steps may go past the end.
void UnigramModel::make_room(size_t size, Scratch& scratch) const {
  const size_t num_places = size + 1 + stride_;
  if (scratch.ended.size() < num_places) scratch.ended.resize(num_places);
  if (scratch.found_scores.size() < kLanes * stride_) {
    scratch.found_scores.resize(kLanes * stride_);
    scratch.found_units.resize(kLanes * stride_);
  }
}

size_t UnigramModel::encode(const uint8_t* text, size_t size, float* sum, Scratch& scratch,
                            uint32_t* numbers) const {
  make_room(size, scratch);
  scratch.sums.assign(size + 1 + stride_, ScoreTrie::kNoScore);
  float* const sums = scratch.sums.data();
  uint32_t* const ended = scratch.ended.data();
  sums[0] = *sum;
  Lane lanes[kLanes];
  for (size_t next = 0; next < size; next = lanes[kLanes - 1].start + lanes[kLanes - 1].width) {
    const size_t longest = find_pieces(text, size, next, lanes, scratch);
    for (size_t lane = 0; lane < kLanes && lanes[lane].width != 0; ++lane) {
      const size_t start = lanes[lane].start;
      const float* const scores = scratch.found_scores.data() + lane * stride_;
      const uint32_t* const places = scratch.found_units.data() + lane * stride_;
      float here = sums[start];
      if (here < -kMaxSum || here > kMaxSum) [[unlikely]] {
        // Nothing that began earlier ends further on.
        const size_t last = std::min(size, start + max_piece_bytes_);
        for (size_t i = start; i <= last; ++i) sums[i] -= here;
        here = 0;
      }
      for (size_t i = 0; i < longest; i += kStep) {
        const Floats offered = load<Floats>(scores + i) + here, known = load<Floats>(sums + start + 1 + i);
        const auto is_better = offered > known;
        store(sums + start + 1 + i, is_better ? offered : known);
        store(ended + start + 1 + i,
              is_better ? load<Numbers>(places + i) : load<Numbers>(ended + start + 1 + i));
      }
      if (!has_character(lanes[lane], scores, longest)) [[unlikely]] {
        const size_t end = start + lanes[lane].width;
        if (here + unknown_score_ > sums[end]) {
          sums[end] = here + unknown_score_;
          ended[end] = kUnknown + static_cast<uint32_t>(lanes[lane].width);
        }
      }
    }
  }
  *sum = sums[size];
  return write(text, size, scratch, numbers);
}

UnigramModel::Measured UnigramModel::measure(const uint8_t* text, size_t size, Scratch& scratch,
                                             uint32_t* numbers) const {
  make_room(size, scratch);
  scratch.sums.assign(size + 1 + stride_, ScoreTrie::kNoScore);
  scratch.seconds.assign(size + 1 + stride_, ScoreTrie::kNoScore);
  float* const sums = scratch.sums.data();
  float* const seconds = scratch.seconds.data();
  uint32_t* const ended = scratch.ended.data();
  sums[0] = 0;
  size_t num_characters = 0;
  Lane lanes[kLanes];
  for (size_t next = 0; next < size; next = lanes[kLanes - 1].start + lanes[kLanes - 1].width) {
    const size_t longest = find_pieces(text, size, next, lanes, scratch);
    for (size_t lane = 0; lane < kLanes && lanes[lane].width != 0; ++lane) {
      ++num_characters;
      const size_t start = lanes[lane].start;
      const float* const scores = scratch.found_scores.data() + lane * stride_;
      const uint32_t* const places = scratch.found_units.data() + lane * stride_;
      const float here = sums[start], second_here = seconds[start];
      for (size_t i = 0; i < longest; i += kStep) {
        const Floats found = load<Floats>(scores + i);
        const Floats offered = found + here, second_offered = found + second_here;
        const Floats known = load<Floats>(sums + start + 1 + i);
        Floats second = load<Floats>(seconds + start + 1 + i);
        const auto is_better = offered > known;
        second = second_offered > second ? second_offered : second;
        const Floats worse = is_better ? known : offered;
        store(seconds + start + 1 + i, worse > second ? worse : second);
        store(sums + start + 1 + i, is_better ? offered : known);
        store(ended + start + 1 + i,
              is_better ? load<Numbers>(places + i) : load<Numbers>(ended + start + 1 + i));
      }
      if (!has_character(lanes[lane], scores, longest)) [[unlikely]] {
        const size_t end = start + lanes[lane].width;
        const float offered = here + unknown_score_, known = sums[end];
        seconds[end] = std::max({seconds[end], second_here + unknown_score_, std::min(known, offered)});
        if (offered > known) {
          sums[end] = offered;
          ended[end] = kUnknown + static_cast<uint32_t>(lanes[lane].width);
        }
      }
    }
  }
  const size_t count = write(text, size, scratch, numbers);
  if (!vocabulary_->has_bytes()) {
    for (const uint32_t end : scratch.ends) {
      if (ended[end] < kUnknown) continue;
      const size_t start = end - size_of(ended[end]);
      if (start > 0 && ended[start] >= kUnknown) return {count, -1};
    }
  }
  // A sum of n numbers is rounded n times, each time by 2^-24 of a sum at most. Two sums are compared, here
  // and anywhere.
  const double margin = double{sums[size]} - double{seconds[size]};
  const double rounding = static_cast<double>(num_characters) * 0x1.001p-23;
  const double limit = margin / rounding - 2 * static_cast<double>(reach(size)) - 1;
  return {count, static_cast<float>(std::clamp(limit, -1.0, static_cast<double>(FLT_MAX)))};
}

size_t UnigramModel::encode_word(const uint8_t* text, size_t size, Scratch& scratch,
                                 uint32_t* numbers) const {
  make_room(size, scratch);
  scratch.exact_sums.assign(size + 1, 0);
  std::fill_n(scratch.ended.begin(), size + 1, kNothing);
  double* const sums = scratch.exact_sums.data();
  uint32_t* const ended = scratch.ended.data();
  Lane lanes[kLanes];
  for (size_t next = 0; next < size; next = lanes[kLanes - 1].start + lanes[kLanes - 1].width) {
    const size_t longest = find_pieces(text, size, next, lanes, scratch);
    for (size_t lane = 0; lane < kLanes && lanes[lane].width != 0; ++lane) {
      const size_t start = lanes[lane].start;
      const float* const scores = scratch.found_scores.data() + lane * stride_;
      const auto offer = [&](size_t end, uint32_t place, double score) {
        if (ended[end] != kNothing && !(sums[start] + score > sums[end])) return;
        sums[end] = sums[start] + score;
        ended[end] = place;
      };
      for (size_t i = 0; i < longest; ++i) {
        if (scores[i] == ScoreTrie::kNoScore) continue;
        const uint32_t place = scratch.found_units[lane * stride_ + i];
        offer(start + 1 + i, place, vocabulary_->exact_score(trie_.ended(place).piece));
      }
      if (!has_character(lanes[lane], scores, longest)) {
        offer(start + lanes[lane].width, kUnknown + static_cast<uint32_t>(lanes[lane].width),
              exact_unknown_score_);
      }
    }
  }
  return write(text, size, scratch, numbers);
}

size_t UnigramModel::write(const uint8_t* text, size_t size, Scratch& scratch, uint32_t* numbers) const {
  const uint32_t* const ended = scratch.ended.data();
  scratch.ends.clear();
  for (size_t end = size; end > 0; end -= size_of(ended[end]))
    scratch.ends.push_back(static_cast<uint32_t>(end));
  NumberWriter writer(*vocabulary_, numbers);
  size_t start = 0;
  for (size_t i = scratch.ends.size(); i-- > 0;) {
    const size_t end = scratch.ends[i];
    if (ended[end] < kUnknown) {
      writer.put(trie_.ended(ended[end]).piece);
    } else {
      writer.put_unknown(text + start, end - start);
    }
    start = end;
  }
  return writer.count();
}

}  // namespace tokcore
