#include "encode/unigram_model.h"

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <cstring>

namespace tokcore {
namespace {

using Floats = float __attribute__((vector_size(16)));
using Numbers = uint32_t __attribute__((vector_size(16)));

constexpr Floats kNothingFound{CharacterTrie::kNoScore, CharacterTrie::kNoScore, CharacterTrie::kNoScore,
                               CharacterTrie::kNoScore};

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
  stride_ = max_piece_characters_ + kStep;
  num_lanes_ = std::clamp<size_t>(kMaxFound / stride_, 1, kLanes);
  return trie_.build(entries);
}

void UnigramModel::find_pieces(size_t start, size_t num_starts, size_t sizes[kLanes],
                               Scratch& scratch) const {
  const CharacterTrie::Unit* const units = trie_.units();
  const uint32_t* const characters = scratch.characters.data() + start;
  float* const scores = scratch.found_scores.data();
  uint32_t* const found = scratch.found_places.data();
  uint32_t places[kLanes];
  size_t going[kLanes];
  for (size_t lane = 0; lane < num_starts; ++lane) {
    going[lane] = lane;
    places[lane] = trie_.root() + characters[lane];
  }
  // No branch on what is found: the lanes that go on are listed anew each time.
  size_t num_going = num_starts;
  for (size_t depth = 0; num_going > 0; ++depth) {
    size_t num_left = 0;
    for (size_t i = 0; i < num_going; ++i) {
      const size_t lane = going[i];
      const uint32_t place = places[lane], next = characters[lane + depth + 1];
      const CharacterTrie::Unit unit = units[place];
      const bool is_found = unit.character == characters[lane + depth];
      scores[lane * stride_ + depth] = unit.score;
      found[lane * stride_ + depth] = place;
      sizes[lane] = depth + static_cast<size_t>(is_found);
      places[lane] = unit.first + next;
      __builtin_prefetch(units + places[lane]);
      going[num_left] = lane;
      num_left += static_cast<size_t>(is_found & unit.may_lead_on(next));
    }
    num_going = num_left;
  }
  for (size_t lane = 0; lane < num_starts; ++lane)
    store(scores + lane * stride_ + sizes[lane], kNothingFound);
}

size_t UnigramModel::begin(const uint8_t* text, size_t size, Scratch& scratch) const {
  if (scratch.characters.size() < size + 2) {
    scratch.characters.resize(size + 2);
    scratch.ended.resize(size + 1 + kStep);
    scratch.begun.resize(size + 1 + kStep);
  }
  if (scratch.found_scores.empty()) {
    scratch.found_scores.resize(num_lanes_ * stride_);
    scratch.found_places.resize(num_lanes_ * stride_);
  }
  return trie_.translate(text, size, scratch.characters.data());
}

size_t UnigramModel::encode(const uint8_t* text, size_t size, float* sum, Scratch& scratch,
                            uint32_t* numbers) const {
  const size_t count = begin(text, size, scratch);
  scratch.sums.assign(count + 1 + kStep, CharacterTrie::kNoScore);
  float* const sums = scratch.sums.data();
  uint32_t* const ended = scratch.ended.data();
  uint32_t* const begun = scratch.begun.data();
  sums[0] = *sum;
  size_t sizes[kLanes];
  for (size_t start = 0, lane = num_lanes_; start < count; ++start) {
    lane = lane + 1 < num_lanes_ ? lane + 1 : 0;
    if (lane == 0) find_pieces(start, std::min(num_lanes_, count - start), sizes, scratch);
    const float* const scores = scratch.found_scores.data() + lane * stride_;
    const uint32_t* const places = scratch.found_places.data() + lane * stride_;
    float here = sums[start];
    if (here < -kMaxSum || here > kMaxSum) [[unlikely]] {
      // Nothing that began earlier ends further on.
      const size_t last = std::min(count, start + max_piece_characters_);
      for (size_t i = start; i <= last; ++i) sums[i] -= here;
      here = 0;
    }
    const Numbers now = Numbers{} + static_cast<uint32_t>(start);
    for (size_t i = 0; i < sizes[lane]; i += kStep) {
      const Floats offered = load<Floats>(scores + i) + here, known = load<Floats>(sums + start + 1 + i);
      const auto is_better = offered > known;
      store(sums + start + 1 + i, is_better ? offered : known);
      store(ended + start + 1 + i,
            is_better ? load<Numbers>(places + i) : load<Numbers>(ended + start + 1 + i));
      store(begun + start + 1 + i, is_better ? now : load<Numbers>(begun + start + 1 + i));
    }
    if (scores[0] == CharacterTrie::kNoScore && here + unknown_score_ > sums[start + 1]) [[unlikely]] {
      sums[start + 1] = here + unknown_score_;
      ended[start + 1] = kUnknown;
      begun[start + 1] = static_cast<uint32_t>(start);
    }
  }
  *sum = sums[count];
  bool is_certain;
  return write(text, size, count, scratch, numbers, &is_certain);
}

UnigramModel::Measured UnigramModel::measure(const uint8_t* text, size_t size, Scratch& scratch,
                                             uint32_t* numbers) const {
  const size_t count = begin(text, size, scratch);
  scratch.sums.assign(count + 1 + kStep, CharacterTrie::kNoScore);
  scratch.seconds.assign(count + 1 + kStep, CharacterTrie::kNoScore);
  float* const sums = scratch.sums.data();
  float* const seconds = scratch.seconds.data();
  uint32_t* const ended = scratch.ended.data();
  uint32_t* const begun = scratch.begun.data();
  sums[0] = 0;
  size_t sizes[kLanes];
  for (size_t start = 0, lane = num_lanes_; start < count; ++start) {
    lane = lane + 1 < num_lanes_ ? lane + 1 : 0;
    if (lane == 0) find_pieces(start, std::min(num_lanes_, count - start), sizes, scratch);
    const float* const scores = scratch.found_scores.data() + lane * stride_;
    const uint32_t* const places = scratch.found_places.data() + lane * stride_;
    const float here = sums[start], second_here = seconds[start];
    const Numbers now = Numbers{} + static_cast<uint32_t>(start);
    for (size_t i = 0; i < sizes[lane]; i += kStep) {
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
      store(begun + start + 1 + i, is_better ? now : load<Numbers>(begun + start + 1 + i));
    }
    if (scores[0] == CharacterTrie::kNoScore) [[unlikely]] {
      const float offered = here + unknown_score_, known = sums[start + 1];
      seconds[start + 1] =
          std::max({seconds[start + 1], second_here + unknown_score_, std::min(known, offered)});
      if (offered > known) {
        sums[start + 1] = offered;
        ended[start + 1] = kUnknown;
        begun[start + 1] = static_cast<uint32_t>(start);
      }
    }
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
  scratch.exact_sums.assign(count + 1, 0);
  std::fill_n(scratch.ended.begin(), count + 1, kNothing);
  double* const sums = scratch.exact_sums.data();
  uint32_t* const ended = scratch.ended.data();
  uint32_t* const begun = scratch.begun.data();
  size_t sizes[kLanes];
  for (size_t start = 0, lane = num_lanes_; start < count; ++start) {
    lane = lane + 1 < num_lanes_ ? lane + 1 : 0;
    if (lane == 0) find_pieces(start, std::min(num_lanes_, count - start), sizes, scratch);
    const float* const scores = scratch.found_scores.data() + lane * stride_;
    const auto offer = [&](size_t end, double score, uint32_t place) {
      if (ended[end] != kNothing && !(sums[start] + score > sums[end])) return;
      sums[end] = sums[start] + score;
      ended[end] = place;
      begun[end] = static_cast<uint32_t>(start);
    };
    for (size_t i = 0; i < sizes[lane]; ++i) {
      if (scores[i] == CharacterTrie::kNoScore) continue;
      const uint32_t place = scratch.found_places[lane * stride_ + i];
      offer(start + 1 + i, vocabulary_->exact_score(trie_.piece(place)), place);
    }
    if (scores[0] == CharacterTrie::kNoScore) offer(start + 1, exact_unknown_score_, kUnknown);
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
  for (size_t end = num_characters; end > 0; end = scratch.begun[end]) {
    tokens[count] = scratch.ended[end];
    has_unknown |= tokens[count++] == kUnknown;
  }
  *is_certain = true;
  if (!has_unknown) {
    for (size_t i = 0; i < count; ++i) numbers[i] = trie_.piece(tokens[count - 1 - i]);
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
      const uint32_t piece = trie_.piece(tokens[i]);
      writer.put(piece);
      at += vocabulary_->text(piece).size();
    }
  }
  return writer.count();
}

}  // namespace tokcore
