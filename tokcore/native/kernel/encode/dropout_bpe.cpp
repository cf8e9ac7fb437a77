#include "encode/dropout_bpe.h"

#include <algorithm>

namespace tokcore {
namespace {

constexpr uint32_t kNone = UINT32_MAX;
constexpr int32_t kGone = -1;  // a symbol that is part of the one before

// The heap's top is the candidate of the lowest priority, the leftmost of several.
bool comes_later(const DropoutBpe::Scratch::Candidate& a, const DropoutBpe::Scratch::Candidate& b) {
  return a.priority != b.priority ? a.priority > b.priority : a.place > b.place;
}

}  // namespace

void DropoutBpe::build(const int32_t* byte_ids, const int32_t* left, const int32_t* right,
                       const int32_t* result, const uint32_t* priority, size_t num_merges) {
  std::copy(byte_ids, byte_ids + 256, byte_ids_);
  pairs_.reset(num_merges);
  results_.assign(result, result + num_merges);
  priorities_.assign(priority, priority + num_merges);
  for (size_t i = 0; i < num_merges; ++i) pairs_.add(key(left[i], right[i]), static_cast<uint32_t>(i));
}

void DropoutBpe::encode(const uint8_t* text, size_t size, const Chance& dropout, Draws& draws,
                        Scratch& scratch, std::vector<int32_t>* ids) const {
  scratch.symbols.resize(size);
  scratch.next.resize(size);
  scratch.previous.resize(size);
  int32_t* const symbols = scratch.symbols.data();
  uint32_t* const next = scratch.next.data();
  uint32_t* const previous = scratch.previous.data();
  auto& queue = scratch.queue;
  queue.clear();
  for (size_t i = 0; i < size; ++i) {
    symbols[i] = byte_ids_[text[i]];
    next[i] = i + 1 < size ? static_cast<uint32_t>(i) + 1 : kNone;
    previous[i] = static_cast<uint32_t>(i) - 1;  // kNone of the first
  }
  const auto look_at = [&](uint32_t place) {
    if (place == kNone || next[place] == kNone) return false;
    const uint32_t merge = pairs_.find(key(symbols[place], symbols[next[place]]));
    if (merge == NumberTable::kNone) return false;
    queue.push_back({priorities_[merge], place, results_[merge]});
    return true;
  };
  for (size_t i = 0; i + 1 < size; ++i) look_at(static_cast<uint32_t>(i));
  std::make_heap(queue.begin(), queue.end(), comes_later);
  const auto push = [&](uint32_t place) {
    if (look_at(place)) std::push_heap(queue.begin(), queue.end(), comes_later);
  };

  auto& passed_over = scratch.passed_over;
  passed_over.clear();
  while (!queue.empty()) {
    std::pop_heap(queue.begin(), queue.end(), comes_later);
    const Scratch::Candidate top = queue.back();
    queue.pop_back();
    if (dropout.happens(draws)) {
      passed_over.push_back(top);
      continue;
    }
    for (const Scratch::Candidate& one : passed_over) {
      queue.push_back(one);
      std::push_heap(queue.begin(), queue.end(), comes_later);
    }
    passed_over.clear();
    const uint32_t place = top.place, right = next[place];
    if (symbols[place] == kGone || right == kNone) continue;
    const uint32_t merge = pairs_.find(key(symbols[place], symbols[right]));
    // One of the two may have been merged since.
    if (merge == NumberTable::kNone || results_[merge] != top.result) continue;
    symbols[place] = top.result;
    symbols[right] = kGone;
    next[place] = next[right];
    if (next[place] != kNone) previous[next[place]] = place;
    push(previous[place]);
    push(place);
  }
  for (size_t i = 0; i < size; ++i) {
    if (symbols[i] != kGone) ids->push_back(symbols[i]);
  }
}

}  // namespace tokcore
