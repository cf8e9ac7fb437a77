// DESCRIPTION
// TrieNodes gives the nodes of a trie one by one while a double array is built, first those that texts pass
// most often, so that these lie close together. A node stands for the entries that begin with what it spells.
// Not thread-safe.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <queue>
#include <vector>

#include "encode/free_places.h"

namespace tokcore {

class TrieNodes {
 public:
  struct Node {
    double share;  // the sum of its entries' probabilities
    uint32_t place;
    size_t first, last;  // its entries
    size_t depth;        // how many labels they have in common

    bool operator<(const Node& other) const {
      return share != other.share ? share < other.share : first > other.first;
    }
  };

  // About the probability of an entry.
  static double share_of(float score) {
    constexpr double kLeastScore = -30;
    return std::exp(std::clamp(double{score}, kLeastScore, 0.0));
  }

  // entries: with scores, in the order of their labels. root: the place of the first node.
  template <typename Entry>
  TrieNodes(const std::vector<Entry>& entries, uint32_t root) {
    shares_.reserve(entries.size() + 1);
    shares_.push_back(0);
    for (const Entry& entry : entries) shares_.push_back(shares_.back() + share_of(entry.score));
    waiting_.push({0, root, 0, entries.size(), 0});
  }

  bool empty() const { return waiting_.empty(); }
  Node take() {
    const Node node = waiting_.top();
    waiting_.pop();
    return node;
  }

  // The children of a node whose entries all go on. label_of(i): the next label of entry i. Valid until the
  // next call.
  template <typename LabelOf>
  const std::vector<FreePlaces::Child>& find_children(const Node& node, const LabelOf& label_of) {
    children_.clear();
    for (size_t i = node.first; i < node.last; ++i) {
      if (children_.empty() || children_.back().first != label_of(i)) children_.push_back({label_of(i), i});
    }
    return children_;
  }
  // Adds the children that were found last. Their places begin at `first`.
  void add_children(const Node& parent, uint32_t first) {
    for (size_t i = 0; i < children_.size(); ++i) {
      const auto [label, begin] = children_[i];
      const size_t end = i + 1 < children_.size() ? children_[i + 1].second : parent.last;
      waiting_.push({shares_[end] - shares_[begin], first + label, begin, end, parent.depth + 1});
    }
  }

 private:
  std::vector<double> shares_;  // of all entries before one
  std::vector<FreePlaces::Child> children_;
  std::priority_queue<Node> waiting_;
};

}  // namespace tokcore
