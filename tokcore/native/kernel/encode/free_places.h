// DESCRIPTION
// FreePlaces says where the children of a trie's node go in a double array: to the first place where the
// units of all their labels (bytes, or numbers of characters) are free. No two nodes have children that begin
// at one place.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace tokcore {

class FreePlaces {
 public:
  static constexpr size_t kWidth = 256;  // of bytes: places from where children begin to where the next may

  // A child: the label that leads to it, and where its entries begin.
  using Child = std::pair<uint32_t, size_t>;

  // The first `num_used` places are taken. Children begin at 1 or later. Labels are below `width`.
  explicit FreePlaces(size_t num_used, size_t width = kWidth)
      : width_(width), is_taken_(num_used, true), begins_(1, true), first_free_(num_used) {}

  // Where children begin: the unit of each label is free, and taken from now on. children: ascending, not
  // empty.
  size_t take(const Child* children, size_t num_children);

 private:
  bool is_free(size_t at) const { return at >= is_taken_.size() || !is_taken_[at]; }
  bool may_begin(size_t place, const Child* children, size_t num_children) const;
  size_t find(const Child* children, size_t num_children);

  size_t width_;
  std::vector<bool> is_taken_;
  std::vector<bool> begins_;  // whether the children of some node begin there
  size_t first_free_;         // all before it are taken, or not worth a search
};

}  // namespace tokcore
