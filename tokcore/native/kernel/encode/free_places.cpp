#include "encode/free_places.h"

#include <algorithm>

namespace tokcore {

size_t FreePlaces::take(const Child* children, size_t num_children) {
  const size_t place = find(children, num_children);
  if (begins_.size() <= place) begins_.resize(place + width_, false);
  begins_[place] = true;
  if (is_taken_.size() < place + width_) is_taken_.resize(place + width_, false);
  for (size_t i = 0; i < num_children; ++i) is_taken_[place + children[i].first] = true;
  return place;
}

bool FreePlaces::may_begin(size_t place, const Child* children, size_t num_children) const {
  if (place < begins_.size() && begins_[place]) return false;
  for (size_t i = 0; i < num_children; ++i) {
    if (!is_free(place + children[i].first)) return false;
  }
  return true;
}

size_t FreePlaces::find(const Child* children, size_t num_children) {
  constexpr size_t kMaxSearched = size_t{1} << 14;
  const size_t first_label = children[0].first;
  const size_t from = std::max(first_free_, first_label + 1);
  size_t num_taken = 0;
  for (size_t at = from;; ++at) {
    if (!is_free(at)) {
      ++num_taken;
      continue;
    }
    if (num_taken == at - first_free_) first_free_ = at;
    if (!may_begin(at - first_label, children, num_children)) continue;
    // Where nearly all is taken, or fits nothing, the next search need not look again.
    if (num_taken * 20 >= (at - from + 1) * 19 || at - from >= kMaxSearched) first_free_ = at;
    return at - first_label;
  }
}

}  // namespace tokcore
