// DESCRIPTION
// UnigramLattice looks at all cuts of a word into pieces: how often each piece is expected, and which cut has
// the highest score. A character that is no piece may stand alone, as unknown. Expected numbers are
// multiples of 2^-32 and scores of 2^-28, so that their sums over words do not depend on the order; within a
// word the order of operations is fixed. Time and memory are linear in the word's length, times the pieces
// that begin at a character. Keeps its memory from word to word; one thread at a time.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "unigram/unigram_pieces.h"

namespace tokcore {

class UnigramLattice {
 public:
  static constexpr int kShareBits = 32;

  // Calls action(piece, share): how often the piece is expected in the word, times 2^kShareBits, for each
  // place where it may stand.
  template <typename Action>
  void for_each_share(const UnigramPieces& pieces, const uint8_t* text, size_t size, Action action);

  // Calls action(piece) for each piece of the best cut, or first() for what is unknown, from the last to the
  // first. Of two cuts with one score, the one whose last piece begins earlier is better.
  template <typename Action>
  void for_each_best(const UnigramPieces& pieces, const uint8_t* text, size_t size, Action action) {
    find_best_fixed(pieces, text, size, kNone);
    follow_back(pieces, size, action);
  }

  // The best cut of the piece's own text that is not the piece: its score and, by action, its pieces.
  template <typename Action>
  int64_t find_alternative(const UnigramPieces& pieces, uint32_t piece, Action action) {
    const auto text = pieces.text(piece);
    find_best_fixed(pieces, reinterpret_cast<const uint8_t*>(text.data()), text.size(), piece);
    follow_back(pieces, text.size(), action);
    return best_[text.size()].score;
  }

  // The score of that cut in float32, as encoding adds scores up.
  float measure_alternative(const UnigramPieces& pieces, uint32_t piece) {
    const auto text = pieces.text(piece);
    find_best(
        pieces, reinterpret_cast<const uint8_t*>(text.data()), text.size(), piece,
        [&](uint32_t one) { return static_cast<float>(pieces.score(one)); },
        static_cast<float>(pieces.unknown_score()), best_single_);
    return best_single_[text.size()].score;
  }

 private:
  // A sum of probabilities is value * 2^(-256 * level), so that those of long words do not become 0.
  struct Sum {
    double value = 0;
    int64_t level = 0;

    void add(double more, int64_t more_level) {
      if (value == 0) {
        value = more;
        level = more_level;
        return;
      }
      for (; more_level > level && more != 0; --more_level) more *= kStep;
      for (; more_level < level; --level) value *= kStep;
      value += more;
    }
    void settle() {
      while (value < kStep && value != 0) {
        value *= kInverseStep;
        ++level;
      }
    }
  };
  static constexpr uint32_t kUnknown = UINT32_MAX;
  static constexpr uint32_t kNone = UINT32_MAX - 1;
  static constexpr double kStep = 0x1p-256, kInverseStep = 0x1p+256;

  struct Edge {
    uint32_t start;
    uint32_t end;
    uint32_t piece;
    double probability;
  };
  // The best cut of the text up to a place: its score, and its last piece.
  template <typename Score>
  struct Best {
    Score score;
    uint32_t start;
    uint32_t piece;
  };

  // Calls action(end, piece) for each piece that begins at a place, and for the unknown character there.
  template <typename Action>
  static void for_each_piece(const UnigramPieces& pieces, const uint8_t* text, size_t size, size_t start,
                             Action action) {
    const PieceTrie& trie = pieces.trie();
    const size_t character = SymbolCodes::size_at(text + start);
    bool is_known = false;
    uint32_t node = PieceTrie::kRoot;
    for (size_t at = start; at < size && (node = trie.child(node, text[at])) != PieceTrie::kNone; ++at) {
      const uint32_t piece = trie.piece(node);
      if (piece == PieceTrie::kNone || !pieces.alive(piece)) continue;
      is_known |= at + 1 == start + character;
      action(at + 1, piece);
    }
    if (!is_known) action(start + character, kUnknown);
  }

  // left_out: a piece that no cut may have, or kNone. unknown: the score of an unknown character. best: by
  // place.
  template <typename Score, typename FindScore>
  static void find_best(const UnigramPieces& pieces, const uint8_t* text, size_t size, uint32_t left_out,
                        FindScore find_score, Score unknown, std::vector<Best<Score>>& best);
  void find_best_fixed(const UnigramPieces& pieces, const uint8_t* text, size_t size, uint32_t left_out) {
    find_best(
        pieces, text, size, left_out, [&](uint32_t piece) { return pieces.fixed_score(piece); },
        pieces.unknown_fixed_score(), best_);
  }
  template <typename Action>
  void follow_back(const UnigramPieces& pieces, size_t size, Action action) const {
    for (size_t end = size; end > 0; end = best_[end].start)
      action(best_[end].piece == kUnknown ? pieces.first() : best_[end].piece);
  }

  std::vector<Sum> before_;
  std::vector<Sum> after_;
  std::vector<Edge> edges_;
  std::vector<Best<int64_t>> best_;
  std::vector<Best<float>> best_single_;
};

template <typename Action>
void UnigramLattice::for_each_share(const UnigramPieces& pieces, const uint8_t* text, size_t size,
                                    Action action) {
  before_.assign(size + 1, {});
  after_.assign(size + 1, {});
  edges_.clear();
  before_[0].value = after_[size].value = 1;
  for (size_t start = 0; start < size; start += SymbolCodes::size_at(text + start)) {
    before_[start].settle();
    for_each_piece(pieces, text, size, start, [&](size_t end, uint32_t piece) {
      const double probability = piece == kUnknown ? pieces.unknown_probability() : pieces.probability(piece);
      edges_.push_back({static_cast<uint32_t>(start), static_cast<uint32_t>(end), piece, probability});
      before_[end].add(before_[start].value * probability, before_[start].level);
    });
  }
  before_[size].settle();
  const Sum total = before_[size];
  const double inverse = 1 / total.value;
  for (size_t i = edges_.size(); i-- > 0;) {
    const Edge& edge = edges_[i];
    Sum& after = after_[edge.end];
    after.settle();
    double share = before_[edge.start].value * edge.probability * (after.value * inverse);
    int64_t level = before_[edge.start].level + after.level - total.level;
    for (; level > 0 && share != 0; --level) share *= kStep;
    for (; level < 0; ++level) share *= kInverseStep;
    constexpr auto kUnit = static_cast<double>(int64_t{1} << kShareBits);
    action(edge.piece == kUnknown ? pieces.first() : edge.piece, static_cast<uint64_t>(share * kUnit + 0.5));
    after_[edge.start].add(after.value * edge.probability, after.level);
  }
}

template <typename Score, typename FindScore>
void UnigramLattice::find_best(const UnigramPieces& pieces, const uint8_t* text, size_t size,
                               uint32_t left_out, FindScore find_score, Score unknown,
                               std::vector<Best<Score>>& best) {
  constexpr uint32_t kNotReached = UINT32_MAX;
  best.resize(std::max(best.size(), size + 1));
  for (size_t i = 0; i <= size; ++i) best[i].start = kNotReached;
  best[0].score = 0;
  for (size_t start = 0; start < size; start += SymbolCodes::size_at(text + start)) {
    const Score before = best[start].score;
    for_each_piece(pieces, text, size, start, [&](size_t end, uint32_t piece) {
      if (piece == left_out) return;
      const Score score = before + (piece == kUnknown ? unknown : find_score(piece));
      if (best[end].start != kNotReached && score <= best[end].score) return;
      best[end] = {score, static_cast<uint32_t>(start), piece};
    });
  }
}

}  // namespace tokcore
