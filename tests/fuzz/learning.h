// DESCRIPTION
// What the targets of learners share: learning by merges as it is written on a board, and equality of what
// was learned.
#pragma once

#include <map>
#include <utility>
#include <vector>

#include "learn/learner.h"

namespace tokcore::fuzz {

template <typename Symbol>
using Words = std::vector<std::vector<Symbol>>;
template <typename Symbol>
using Pair = std::pair<Symbol, Symbol>;

// How often each pair of neighbours occurs; counts: of each word.
template <typename Symbol>
std::map<Pair<Symbol>, uint64_t> count_pairs(const Words<Symbol>& words,
                                             const std::vector<uint64_t>& counts) {
  std::map<Pair<Symbol>, uint64_t> pairs;
  for (size_t i = 0; i < words.size(); ++i) {
    for (size_t k = 0; k + 1 < words[i].size(); ++k) pairs[{words[i][k], words[i][k + 1]}] += counts[i];
  }
  return pairs;
}

// Puts `made` in place of the pair, in every word, from left to right and without overlap, and records the
// merge.
template <typename Symbol>
void merge(Words<Symbol>* words, Pair<Symbol> pair, uint64_t count, Symbol made, Learned* learned) {
  for (auto& word : *words) {
    std::vector<Symbol> next;
    for (size_t k = 0; k < word.size(); ++k) {
      const bool is_pair = k + 1 < word.size() && std::pair(word[k], word[k + 1]) == pair;
      next.push_back(is_pair ? made : word[k]);
      k += is_pair;
    }
    word = std::move(next);
  }
  learned->left.push_back(static_cast<int32_t>(pair.first));
  learned->right.push_back(static_cast<int32_t>(pair.second));
  learned->count.push_back(count);
}

inline bool same(const Learned& a, const Learned& b) {
  return a.status == b.status && a.left == b.left && a.right == b.right && a.count == b.count;
}

}  // namespace tokcore::fuzz
