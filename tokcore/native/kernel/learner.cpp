#include "learner.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <optional>
#include <stdexcept>
#include <utility>

#include "pair_table.h"
#include "word_store.h"
#include "worker_pool.h"

namespace tokcore {

namespace {

constexpr size_t kNumBytes = 256;
// While ids are below this, symbols take two bytes; the largest 16-bit number marks holes.
constexpr size_t kMaxNarrowIds = 65535;
// A batch of merges is closed by the one that reaches this many units, which bounds what workers write down.
constexpr size_t kMaxBatchUnits = 1 << 20;
constexpr size_t kMaxBatchMerges = 256;
// Of what was written down for a merge, as much memory is kept for the next one.
constexpr size_t kMaxKeptPlaces = 1 << 16;
constexpr size_t kPrefetchStarts = 16;
constexpr size_t kPrefetchSymbols = 8;

struct MergeStep {
  uint32_t left;
  uint32_t right;
  uint32_t merged;
  UnitList units;  // those that may hold the pair, ascending
};

// What a worker writes down for one side of a merge: how often each neighbour occurred next to it, and in
// which units.
struct Neighbour {
  uint32_t id;
  uint32_t num_units;
  int64_t count;
};
struct Place {
  uint32_t id;
  uint32_t unit;
};
struct Side {
  std::vector<Neighbour> neighbours;
  std::vector<Place> places;  // by unit, ascending, for each neighbour
};
struct Effects {
  Side left;
  Side right;
};

// Sums over one side of one merge, dense by symbol; collected into a Side at its end.
class SideSums {
 public:
  void resize(size_t num_ids) { sums_.resize(num_ids); }

  void add(uint32_t id, uint32_t unit, int64_t count, Side& side) {
    Sum& sum = sums_[id];
    sum.count += count;
    if (sum.num_units == 0) {
      touched_.push_back(id);
    } else if (sum.last_unit == unit) {
      return;
    }
    sum.last_unit = unit;
    ++sum.num_units;
    side.places.push_back({id, unit});
  }

  void collect(Side& side) {
    side.neighbours.reserve(touched_.size());
    for (const uint32_t id : touched_) {
      side.neighbours.push_back({id, sums_[id].num_units, sums_[id].count});
      sums_[id] = Sum{};
    }
    touched_.clear();
  }

 private:
  struct Sum {
    int64_t count = 0;
    uint32_t num_units = 0;
    uint32_t last_unit = 0;
  };
  std::vector<Sum> sums_;
  std::vector<uint32_t> touched_;
};

struct Worker {
  size_t first_unit = 0;  // its share of the units; never a part of a word
  size_t end_unit = 0;
  SideSums left;
  SideSums right;
  std::vector<Effects> effects;  // by merge of the batch
};

// Replaces the pair in one word of one unit.
template <typename Symbol>
void rewrite_unit(WordStore<Symbol>& words, uint32_t unit, const MergeStep& step, Worker& worker,
                  Effects& effects) {
  constexpr Symbol kHole = WordStore<Symbol>::kHole;
  const auto left = static_cast<Symbol>(step.left), right = static_cast<Symbol>(step.right);
  Symbol* const begin = words.begin(unit);
  Symbol* const end = words.end(unit);
  Symbol* in = begin;
  for (;; ++in) {
    if (end - in < 2 || *in == kHole) return;
    if (in[0] == left && in[1] == right) break;
  }
  const auto count = static_cast<int64_t>(words.counts[unit]);
  Symbol* out = in;
  while (in != end && *in != kHole) {
    if (end - in >= 2 && in[0] == left && in[1] == right) {
      if (out != begin) worker.left.add(out[-1], unit, count, effects.left);
      in += 2;
      *out++ = static_cast<Symbol>(step.merged);
      if (in != end && *in != kHole) worker.right.add(*in, unit, count, effects.right);
    } else {
      *out++ = *in++;
    }
  }
  std::fill(out, in, kHole);
}

// The same for a segment of a long word: neighbours, and the right half of the last pair, may be in other
// segments.
template <typename Symbol>
void rewrite_segment(WordStore<Symbol>& words, uint32_t unit, const MergeStep& step, Worker& worker,
                     Effects& effects) {
  constexpr Symbol kHole = WordStore<Symbol>::kHole;
  const auto left = static_cast<Symbol>(step.left), right = static_cast<Symbol>(step.right);
  const auto count = static_cast<int64_t>(words.counts[unit]);
  Symbol* const begin = words.begin(unit);
  Symbol* const end = words.end(unit);
  Symbol* in = begin;
  Symbol* out = begin;
  while (in != end && *in != kHole) {
    const bool is_last = in + 1 == end || in[1] == kHole;
    const Symbol following = is_last ? words.first_of(words.next_of(unit)) : in[1];
    if (*in != left || following != right) {
      *out++ = *in++;
      continue;
    }
    if (out != begin) {
      worker.left.add(out[-1], unit, count, effects.left);
    } else if (const uint32_t before = words.previous_of(unit); before != words.kNone) {
      worker.left.add(words.last_of(before), before, count, effects.left);
    }
    if (is_last) {
      words.drop_first(words.next_of(unit));
      in += 1;
    } else {
      in += 2;
    }
    *out++ = static_cast<Symbol>(step.merged);
    const bool at_end = in == end || *in == kHole;
    const Symbol after = at_end ? words.first_of(words.next_of(unit)) : *in;
    if (after != kHole) worker.right.add(after, unit, count, effects.right);
  }
  std::fill(out, in, kHole);
}

template <typename Symbol>
void apply(WordStore<Symbol>& words, const MergeStep& step, Worker& worker, Effects& effects) {
  effects.left.neighbours.clear();
  effects.left.places.clear();
  effects.right.neighbours.clear();
  effects.right.places.clear();
  const uint32_t* const first = std::lower_bound(step.units.begin(), step.units.end(), worker.first_unit);
  const uint32_t* const last = std::lower_bound(first, step.units.end(), worker.end_unit);
  for (const uint32_t* at = first; at != last; ++at) {
    if (last - at > static_cast<ptrdiff_t>(kPrefetchStarts)) words.starts.prefetch(at[kPrefetchStarts]);
    if (last - at > static_cast<ptrdiff_t>(kPrefetchSymbols)) {
      __builtin_prefetch(words.begin(at[kPrefetchSymbols]));
      __builtin_prefetch(&words.counts[at[kPrefetchSymbols]]);
    }
    if (!words.chained(*at)) {
      rewrite_unit(words, *at, step, worker, effects);
    } else {
      rewrite_segment(words, *at, step, worker, effects);
    }
  }
  worker.left.collect(effects.left);
  worker.right.collect(effects.right);
}

class Learner {
 public:
  Learner(const LearnOptions& options, size_t max_merges)
      : options_(options),
        min_count_(static_cast<int64_t>(
            std::clamp<uint64_t>(options.min_count, 1, std::numeric_limits<int64_t>::max()))),
        max_merges_(max_merges),
        pairs_(min_count_),
        token_bytes_(kNumBytes, 1),
        totals_(kNumBytes + max_merges),
        roles_(kNumBytes + max_merges) {}

  void load(const uint8_t* data, const int64_t* offsets, const uint64_t* counts, size_t num_words);
  Learned run();

 private:
  struct Total {
    int64_t count = 0;
    uint32_t num_units = 0;
    uint32_t* cursor = nullptr;
  };

  bool allowed(uint32_t left, uint32_t right) const {
    return options_.max_token_bytes == 0 ||
           token_bytes_[left] + token_bytes_[right] <= options_.max_token_bytes;
  }
  void add_word(const uint8_t* word, size_t size, uint64_t count);
  void deal_units();
  void count_pairs();
  std::optional<Candidate> next_candidate();
  std::vector<MergeStep> next_batch(Learned& learned);
  void apply_batch(const std::vector<MergeStep>& batch);
  template <typename PairOf>
  void settle_side(const std::vector<Side*>& parts, PairOf pair_of);
  void settle(const MergeStep& step, const std::vector<Effects*>& parts);
  void each_worker(const std::function<void(size_t)>& action) {
    if (pool_) {
      pool_->run(action);
    } else {
      action(0);
    }
  }

  LearnOptions options_;
  int64_t min_count_;
  size_t max_merges_;
  WordStore<uint16_t> narrow_;
  WordStore<uint32_t> wide_;
  bool is_wide_ = false;
  size_t loaded_units_ = 0;
  uint64_t loaded_symbols_ = 0;
  PairTable pairs_;
  CandidateQueue queue_;
  std::vector<Worker> workers_;
  Worker alone_;  // works on all units
  std::unique_ptr<WorkerPool> pool_;
  std::vector<size_t> token_bytes_;  // by id
  std::vector<Total> totals_;        // by id; all zero between uses
  std::vector<uint32_t> touched_;
  std::vector<Side*> sides_;
  std::vector<uint8_t> roles_;  // by id: 1 left part, 2 right part of a merge of the batch
};

void Learner::add_word(const uint8_t* word, size_t size, uint64_t count) {
  const size_t segment = size <= narrow_.kMaxUnit ? size : narrow_.kSegment;
  const bool is_chain = segment != size;
  for (size_t start = 0; start < size; start += segment) {
    if (is_chain) {
      const auto unit = static_cast<uint32_t>(loaded_units_);
      narrow_.previous.push_back(start == 0 ? narrow_.kNone : unit - 1);
      narrow_.next.push_back(start + segment >= size ? narrow_.kNone : unit + 1);
    }
    narrow_.starts.set(loaded_units_, loaded_symbols_);
    narrow_.counts.push_back(count);
    ++loaded_units_;
    for (size_t i = start; i < std::min(start + segment, size); ++i) {
      narrow_.symbols[loaded_symbols_++] = options_.id_of_byte[word[i]];
    }
  }
}

void Learner::load(const uint8_t* data, const int64_t* offsets, const uint64_t* counts, size_t num_words) {
  const auto size_of = [&](size_t i) { return static_cast<size_t>(offsets[i + 1] - offsets[i]); };
  size_t num_units = 0;
  uint64_t num_symbols = 0;
  for (size_t i = 0; i < num_words; ++i) {
    const size_t size = size_of(i);
    if (size < 2 || counts[i] == 0) continue;
    num_units += size <= narrow_.kMaxUnit ? 1 : (size + narrow_.kSegment - 1) / narrow_.kSegment;
    num_symbols += size;
  }
  if (num_units >= narrow_.kNone) throw std::length_error("more than 2**32 - 2 words");
  narrow_.starts.resize(num_units);
  narrow_.counts.reserve(num_units);
  narrow_.symbols = std::make_unique_for_overwrite<uint16_t[]>(num_symbols);
  for (const bool long_words : {false, true}) {
    if (long_words) narrow_.first_chained = loaded_units_;
    for (size_t i = 0; i < num_words; ++i) {
      const size_t size = size_of(i);
      if (size < 2 || counts[i] == 0 || (size > narrow_.kMaxUnit) != long_words) continue;
      add_word(data + offsets[i], size, counts[i]);
    }
  }
  narrow_.starts.set(loaded_units_, loaded_symbols_);
  deal_units();
  count_pairs();
}

// Gives each worker about as many symbols, in whole words.
void Learner::deal_units() {
  const size_t num_ids = kNumBytes + max_merges_;
  alone_.end_unit = loaded_units_;
  alone_.left.resize(num_ids);
  alone_.right.resize(num_ids);
  alone_.effects.resize(1);
  const size_t num_workers = loaded_units_ < options_.min_parallel_units ? 1 : options_.threads;
  workers_.resize(num_workers);
  size_t unit = 0;
  for (size_t i = 0; i < num_workers; ++i) {
    const uint64_t goal = loaded_symbols_ / num_workers * (i + 1);
    workers_[i].first_unit = unit;
    while (unit < loaded_units_ &&
           (narrow_.starts[unit] < goal || narrow_.previous_of(unit) != narrow_.kNone))
      ++unit;
    if (i + 1 == num_workers) unit = loaded_units_;
    workers_[i].end_unit = unit;
    if (num_workers > 1) {
      workers_[i].left.resize(num_ids);
      workers_[i].right.resize(num_ids);
    }
  }
  if (num_workers > 1) pool_ = std::make_unique<WorkerPool>(num_workers);
}

// Counts the pairs of bytes and lists their units, for the first merges to start from.
void Learner::count_pairs() {
  struct First {
    int64_t count = 0;
    uint32_t num_units = 0;
    uint32_t last_unit = 0;
    uint32_t* cursor = nullptr;
  };
  constexpr size_t kNumPairs = kNumBytes * kNumBytes;
  std::vector<std::vector<First>> firsts(workers_.size());
  const auto each_pair = [this](size_t worker, auto action) {
    for (size_t unit = workers_[worker].first_unit; unit < workers_[worker].end_unit; ++unit) {
      const uint16_t *at = narrow_.begin(unit), *const end = narrow_.end(unit);
      for (; at + 1 < end; ++at) action(unit, size_t{at[0]} * kNumBytes + at[1]);
      const uint16_t following = narrow_.first_of(narrow_.next_of(unit));
      if (following != narrow_.kHole) action(unit, size_t{*at} * kNumBytes + following);
    }
  };
  each_worker([&](size_t worker) {
    firsts[worker].resize(kNumPairs);
    each_pair(worker, [&, pairs = firsts[worker].data()](size_t unit, size_t pair) {
      First& first = pairs[pair];
      first.count += static_cast<int64_t>(narrow_.counts[unit]);
      if (first.num_units != 0 && first.last_unit == unit) return;
      first.last_unit = static_cast<uint32_t>(unit);
      ++first.num_units;
    });
  });
  std::vector<Candidate> inserted;
  for (size_t pair = 0; pair < kNumPairs; ++pair) {
    int64_t count = 0;
    uint32_t num_units = 0;
    for (const auto& first : firsts) {
      count += first[pair].count;
      num_units += first[pair].num_units;
    }
    const auto left = static_cast<uint32_t>(pair / kNumBytes),
               right = static_cast<uint32_t>(pair % kNumBytes);
    if (count < min_count_ || !allowed(left, right)) continue;
    pairs_.reserve(1);
    pairs_.insert(pair_key(left, right), count, num_units);
    inserted.push_back({count, pair_key(left, right)});
  }
  for (const Candidate& candidate : inserted) {
    queue_.push(candidate);
    uint32_t* cursor = pairs_.find(candidate.key)->units.begin();
    for (auto& first : firsts) {
      First& place = first[left_of(candidate.key) * kNumBytes + right_of(candidate.key)];
      place.cursor = cursor;
      cursor += place.num_units;
      place.num_units = 0;
    }
  }
  each_worker([&](size_t worker) {
    each_pair(worker, [pairs = firsts[worker].data()](size_t unit, size_t pair) {
      First& first = pairs[pair];
      if (first.cursor == nullptr || (first.num_units != 0 && first.last_unit == unit)) return;
      first.last_unit = static_cast<uint32_t>(unit);
      ++first.num_units;
      *first.cursor++ = static_cast<uint32_t>(unit);
    });
  });
}

// The pair to be merged next, at the top of the queue; none if no pair is left.
std::optional<Candidate> Learner::next_candidate() {
  while (!queue_.empty()) {
    const Candidate top = queue_.top();
    const PairTable::Pair* const pair = pairs_.find(top.key);
    if (pair != nullptr && pair->count == top.count) return top;
    queue_.pop();
    if (pair != nullptr) queue_.push({pair->count, top.key});
  }
  return std::nullopt;
}

// The merges that come next whatever the first of them do: no symbol is a left part of one and a right part
// of another. A merge then lowers no count of another, and what it creates is neither more frequent than a
// pair outside of the batch nor preferred to it. Empty if no pair is left.
std::vector<MergeStep> Learner::next_batch(Learned& learned) {
  constexpr uint8_t kLeft = 1, kRight = 2;
  std::vector<MergeStep> batch;
  size_t num_units = 0;
  const size_t max_batch = pool_ ? kMaxBatchMerges : 1;
  while (batch.size() < max_batch && learned.left.size() < max_merges_ && num_units < kMaxBatchUnits) {
    const std::optional<Candidate> candidate = next_candidate();
    if (!candidate) break;
    const uint32_t left = left_of(candidate->key), right = right_of(candidate->key);
    if ((roles_[left] & kRight) != 0 || (roles_[right] & kLeft) != 0) break;
    if (left == right && !batch.empty()) break;
    roles_[left] |= kLeft;
    roles_[right] |= kRight;
    queue_.pop();
    const auto merged = static_cast<uint32_t>(kNumBytes + learned.left.size());
    batch.push_back({left, right, merged, pairs_.take(candidate->key)});
    num_units += batch.back().units.size();
    token_bytes_.push_back(token_bytes_[left] + token_bytes_[right]);
    learned.left.push_back(static_cast<int32_t>(left));
    learned.right.push_back(static_cast<int32_t>(right));
    learned.count.push_back(static_cast<uint64_t>(candidate->count));
    if (left == right) break;
  }
  for (const MergeStep& step : batch) roles_[step.left] = roles_[step.right] = 0;
  return batch;
}

void Learner::apply_batch(const std::vector<MergeStep>& batch) {
  size_t num_units = 0;
  for (const MergeStep& step : batch) num_units += step.units.size();
  if (!is_wide_ && batch.back().merged >= kMaxNarrowIds) {
    wide_ = widened<uint32_t>(std::move(narrow_));
    narrow_ = {};
    is_wide_ = true;
  }
  const auto apply_step = [this](const MergeStep& step, Worker& worker, Effects& effects) {
    if (is_wide_) {
      apply(wide_, step, worker, effects);
    } else {
      apply(narrow_, step, worker, effects);
    }
  };
  if (!pool_ || num_units < options_.min_parallel_units) {
    for (const MergeStep& step : batch) {
      apply_step(step, alone_, alone_.effects[0]);
      settle(step, {&alone_.effects[0]});
    }
    return;
  }
  pool_->run([&](size_t i) {
    Worker& worker = workers_[i];
    if (worker.effects.size() < batch.size()) worker.effects.resize(batch.size());
    for (size_t k = 0; k < batch.size(); ++k) apply_step(batch[k], worker, worker.effects[k]);
  });
  for (size_t k = 0; k < batch.size(); ++k) {
    std::vector<Effects*> parts;
    for (Worker& worker : workers_) parts.push_back(&worker.effects[k]);
    settle(batch[k], parts);
  }
}

// Adds up what the workers wrote down for one side of a merge, and calls pair_of(id, count) for each
// neighbour: it tells the pair that the merge created there, and its count.
template <typename PairOf>
void Learner::settle_side(const std::vector<Side*>& parts, PairOf pair_of) {
  for (const Side* part : parts) {
    for (const Neighbour& neighbour : part->neighbours) {
      Total& total = totals_[neighbour.id];
      if (total.num_units == 0) touched_.push_back(neighbour.id);
      total.count += neighbour.count;
      total.num_units += neighbour.num_units;
    }
  }
  pairs_.reserve(touched_.size());  // so that the cursors stay valid
  for (size_t i = 0; i < touched_.size(); ++i) {
    Total& total = totals_[touched_[i]];
    const Candidate created = pair_of(touched_[i], total.count);
    if (created.count < min_count_ || !allowed(left_of(created.key), right_of(created.key))) continue;
    total.cursor = pairs_.insert(created.key, created.count, total.num_units).units.begin();
    queue_.push(created);
  }
  for (Side* part : parts) {
    for (const Place& place : part->places) {
      Total& total = totals_[place.id];
      if (total.cursor != nullptr) *total.cursor++ = place.unit;
    }
    if (part->places.capacity() > kMaxKeptPlaces) part->places = {};
  }
  for (const uint32_t id : touched_) totals_[id] = Total{};
  touched_.clear();
}

// Brings the counts up to date after a merge: where x (a b) y became x Z y, (x, a) and (b, y) are lost, (x,
// Z) and (Z, y) are new; x is what was there after the replacements to the left, y before those to the right.
void Learner::settle(const MergeStep& step, const std::vector<Effects*>& parts) {
  std::vector<Side*>& sides = sides_;
  sides.clear();
  for (Effects* part : parts) sides.push_back(&part->left);
  int64_t repeated = 0;  // (Z, a) that was counted on the right, and then became (Z, Z)
  settle_side(sides, [&](uint32_t id, int64_t count) -> Candidate {
    if (id == step.merged) {
      repeated = count;
    } else {
      pairs_.lower(pair_key(id, step.left), count);
    }
    return {count, pair_key(id, step.merged)};
  });
  sides.clear();
  for (Effects* part : parts) sides.push_back(&part->right);
  settle_side(sides, [&](uint32_t id, int64_t count) -> Candidate {
    pairs_.lower(pair_key(step.right, id), count);
    return {id == step.left ? count - repeated : count, pair_key(step.merged, id)};
  });
}

Learned Learner::run() {
  Learned learned;
  learned.left.reserve(max_merges_);
  learned.right.reserve(max_merges_);
  learned.count.reserve(max_merges_);
  while (learned.left.size() < max_merges_) {
    const std::vector<MergeStep> batch = next_batch(learned);
    if (batch.empty()) break;
    apply_batch(batch);
  }
  return learned;
}

}  // namespace

Learned learn(const uint8_t* data, const int64_t* offsets, const uint64_t* counts, size_t num_words,
              const LearnOptions& options) {
  // All windows bound the count of every pair, and each merge takes one symbol away for good.
  constexpr auto kMaxWindows = static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
  uint64_t weighted_windows = 0, windows = 0;
  for (size_t i = 0; i < num_words; ++i) {
    const auto size = static_cast<uint64_t>(offsets[i + 1] - offsets[i]);
    if (size < 2 || counts[i] == 0) continue;
    if (size - 1 > (kMaxWindows - weighted_windows) / counts[i])
      return {LearnStatus::kCountOverflow, {}, {}, {}};
    weighted_windows += (size - 1) * counts[i];
    windows += size - 1;
  }
  if (windows == 0 || options.num_merges == 0) return {};
  Learner learner(options, static_cast<size_t>(std::min<uint64_t>(options.num_merges, windows)));
  learner.load(data, offsets, counts, num_words);
  return learner.run();
}

}  // namespace tokcore
