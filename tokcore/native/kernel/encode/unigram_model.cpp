#include "encode/unigram_model.h"

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <limits>

namespace tokcore {

void UnigramModel::build(const PieceVocabulary& vocabulary) {
  vocabulary_ = &vocabulary;
  std::vector<PieceTrie::Entry> entries;
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
    scores_[piece] = score;
    max_score_ = std::max(max_score_, std::fabs(score));
    entries.push_back({vocabulary.text(piece), piece, score});
  }
  unknown_score_ = lowest - kUnknownPenalty;
  exact_unknown_score_ = exact_lowest - double{kUnknownPenalty};
  max_score_ = std::max(max_score_, std::fabs(unknown_score_));
  scores_[vocabulary.unknown()] = unknown_score_;
  for (unsigned byte = 0; byte < 256; ++byte) {
    const bool is_first = (byte & 0xC0) != 0x80;
    scores_[vocabulary.byte(static_cast<uint8_t>(byte))] = is_first ? unknown_score_ : 0;
  }
  trie_.build(std::move(entries));
}

template <typename Offer>
size_t UnigramModel::offer_pieces(const uint8_t* text, size_t size, size_t start, Offer offer) const {
  const size_t width = character_bytes(text + start, size - start);
  bool has_character = false;
  uint32_t node = PieceTrie::kRoot;
  for (size_t end = start; end < size && (node = trie_.child(node, text[end])) != PieceTrie::kNone;) {
    ++end;
    const uint32_t piece = trie_.piece(node);
    if (piece == kNone) continue;
    offer(end, piece, trie_.score(node));
    has_character = has_character || end - start == width;
  }
  if (!has_character) offer(start + width, kNone, unknown_score_);
  return width;
}

size_t UnigramModel::encode(const uint8_t* text, size_t size, float* sum, Scratch& scratch,
                            uint32_t* numbers) const {
  if (scratch.nodes.size() <= size) scratch.nodes.resize(size + 1);
  Scratch::Node* const nodes = scratch.nodes.data();
  for (size_t i = 0; i <= size; ++i) nodes[i].start = kNone;
  nodes[0] = {*sum, 0, kNone};
  size_t frontier = 0;  // the last place where something ends
  for (size_t start = 0; start < size;) {
    float here = nodes[start].sum;
    if (here < -kMaxSum || here > kMaxSum) [[unlikely]] {
      for (size_t i = start; i <= frontier; ++i) {
        if (i == start || nodes[i].start != kNone) nodes[i].sum -= here;
      }
      here = 0;
    }
    const auto offer = [&](size_t end, uint32_t piece, float score) {
      frontier = std::max(frontier, end);
      const float candidate = score + here;
      Scratch::Node& node = nodes[end];
      if (node.start == kNone || candidate > node.sum)
        node = {candidate, static_cast<uint32_t>(start), piece};
    };
    start += offer_pieces(text, size, start, offer);
  }
  *sum = nodes[size].sum;
  return write(nodes, text, size, scratch, numbers);
}

UnigramModel::Measured UnigramModel::measure(const uint8_t* text, size_t size, Scratch& scratch,
                                             uint32_t* numbers) const {
  constexpr double kImpossible = -std::numeric_limits<double>::infinity();
  if (scratch.measured.size() <= size) scratch.measured.resize(size + 1);
  Scratch::MeasuredNode* const nodes = scratch.measured.data();
  for (size_t i = 0; i <= size; ++i) nodes[i] = {kImpossible, kImpossible, kNone, kNone};
  nodes[0].best = 0;
  size_t num_characters = 0;
  for (size_t start = 0; start < size; ++num_characters) {
    const double best = nodes[start].best, second = nodes[start].second;
    const auto offer = [&](size_t end, uint32_t piece, double score) {
      Scratch::MeasuredNode& node = nodes[end];
      if (node.start == kNone || best + score > node.best) {
        node = {best + score, std::max(node.best, second + score), static_cast<uint32_t>(start), piece};
      } else {
        node.second = std::max(node.second, best + score);
      }
    };
    start += offer_pieces(text, size, start, offer);
  }
  const size_t count = write(nodes, text, size, scratch, numbers);
  if (!vocabulary_->has_bytes()) {
    for (const uint32_t end : scratch.ends) {
      const uint32_t start = nodes[end].start;
      if (nodes[end].piece == kNone && start > 0 && nodes[start].piece == kNone) return {count, -1};
    }
  }
  // A sum of n numbers is rounded n times, each time by 2^-24 of a sum at most. Two sums are compared.
  const double margin = nodes[size].best - nodes[size].second - 1e-6;
  const double rounding = static_cast<double>(num_characters) * 0x1.001p-23;
  const double limit = margin / rounding - static_cast<double>(reach(size));
  return {count, static_cast<float>(std::clamp(limit, -1.0, static_cast<double>(FLT_MAX)))};
}

size_t UnigramModel::encode_word(const uint8_t* text, size_t size, Scratch& scratch,
                                 uint32_t* numbers) const {
  if (scratch.measured.size() <= size) scratch.measured.resize(size + 1);
  Scratch::MeasuredNode* const nodes = scratch.measured.data();
  for (size_t i = 0; i <= size; ++i) nodes[i] = {0, 0, kNone, kNone};
  for (size_t start = 0; start < size;) {
    const double here = nodes[start].best;
    start += offer_pieces(text, size, start, [&](size_t end, uint32_t piece, float) {
      const double score = piece == kNone ? exact_unknown_score_ : vocabulary_->exact_score(piece);
      Scratch::MeasuredNode& node = nodes[end];
      if (node.start == kNone || here + score > node.best)
        node = {here + score, 0, static_cast<uint32_t>(start), piece};
    });
  }
  return write(nodes, text, size, scratch, numbers);
}

template <typename Nodes>
size_t UnigramModel::write(const Nodes& nodes, const uint8_t* text, size_t size, Scratch& scratch,
                           uint32_t* numbers) const {
  scratch.ends.clear();
  for (size_t end = size; end > 0; end = nodes[end].start) scratch.ends.push_back(static_cast<uint32_t>(end));
  NumberWriter writer(*vocabulary_, numbers);
  size_t start = 0;
  for (size_t i = scratch.ends.size(); i-- > 0;) {
    const size_t end = scratch.ends[i];
    if (nodes[end].piece != kNone) {
      writer.put(nodes[end].piece);
    } else {
      writer.put_unknown(text + start, end - start);
    }
    start = end;
  }
  return writer.count();
}

}  // namespace tokcore
