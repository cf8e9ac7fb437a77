#include "learn/learner.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <memory>
#include <optional>
#include <stdexcept>
#include <utility>

#include "learn/first_pairs.h"
#include "learn/pair_table.h"
#include "learn/piece_queue.h"
#include "learn/rewriter.h"
#include "learn/score_queue.h"
#include "learn/word_store.h"
#include "learn/words.h"
#include "memory/buffer.h"
#include "memory/hash.h"
#include "memory/worker_pool.h"

namespace tokcore {

namespace {

constexpr size_t kNumBytes = 256;
// At most this many symbols: the pairs of the start are counted in a table of all pairs.
constexpr size_t kMaxDense = 256;
// The merge that reaches this many units closes its batch. This bounds the workers' notes.
constexpr size_t kMaxBatchUnits = 1 << 18;
constexpr size_t kMaxBatchMerges = 256;
// Places and neighbours for which memory is kept from one merge to the next, at most: for each merge of a
// batch.
constexpr size_t kMaxKeptPlaces = 1 << 12, kMaxKeptNeighbours = 1 << 9;
// See guess_last_count(). On tables of text, guesses without the margin were up to 1.23 of the truth.
constexpr double kLeastFall = 0.4, kMargin = 0.7;

class Learner {
 public:
  // symbol_bytes: of each symbol that words may have.
  Learner(const LearnOptions& options, std::vector<size_t> symbol_bytes, size_t max_merges)
      : options_(options),
        min_count_(static_cast<int64_t>(
            std::clamp<uint64_t>(options.min_count, 1, std::numeric_limits<int64_t>::max()))),
        num_symbols_known_(symbol_bytes.size()),
        max_merges_(max_merges),
        pairs_(min_count_),
        token_bytes_(std::move(symbol_bytes)),
        total_index_(num_symbols_known_ + max_merges),
        roles_(num_symbols_known_ + max_merges) {
    if (options_.pieces != nullptr) piece_queue_.reset(options_.pieces, num_symbols_known_);
  }

  template <typename Words>
  void load(const Words& words);
  Learned run();

 private:
  // The sum of a neighbour over all workers.
  struct Total {
    uint32_t id;
    int64_t count = 0;
    UnitListSize size;
    UnitList units;           // of the new pair
    UnitList::Cursor cursor;  // where the next unit goes; nowhere if the new pair is not kept
  };

  bool allowed(uint32_t left, uint32_t right) const {
    if (allows_all_) return true;
    if (options_.pieces != nullptr) return piece_queue_.allows(left, right);
    return options_.max_token_bytes == 0 ||
           token_bytes_[left] + token_bytes_[right] <= options_.max_token_bytes;
  }
  template <typename Symbol, typename Words>
  void load_into(WordStore<Symbol>& store, const Words& words);
  template <typename Symbol, typename Words>
  void add_word(WordStore<Symbol>& store, const Words& words, size_t word);
  template <typename Words>
  void count_symbols(const Words& words);
  void deal_units(Units& units);
  template <typename FirstPairs, typename Symbol, typename Filter>
  void list_pairs(WordStore<Symbol>& store, Filter may_reach);
  template <typename Symbol>
  void list_more_pairs(WordStore<Symbol>& store);
  int64_t guess_last_count(const std::vector<uint64_t>& counts) const;
  void raise_floor(const Learned& learned);
  bool lower_floor(const Learned& learned);
  std::optional<Candidate> next_candidate();
  // Adds a pair that was never in the table.
  void insert_pair(Candidate candidate, UnitList units) {
    pairs_.insert(candidate.key, candidate.count, std::move(units));
    if (options_.by_score) {
      scores_.add(candidate);
    } else if (options_.pieces != nullptr) {
      piece_queue_.push(candidate);
    } else {
      queue_.push(candidate);
    }
  }
  std::vector<MergeStep> next_batch(Learned& learned);
  void prefetch_units(const MergeStep& step) const;
  void prefetch_symbols(const MergeStep& step) const;
  void apply_batch(const std::vector<MergeStep>& batch);
  template <typename LostPair, typename NewPair>
  void settle_side(const std::vector<Side*>& parts, LostPair lost_pair, NewPair new_pair);
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
  int64_t floor_ = 1;  // pairs with lower counts are not in the table; at least min_count_
  size_t next_guess_ = std::numeric_limits<size_t>::max();  // merges from which on it is guessed again
  size_t num_symbols_known_;  // ids below are those of the words, ids from here on those of merges
  size_t max_merges_;
  WordStore<uint16_t> narrow_;
  WordStore<uint32_t> wide_;
  bool is_wide_ = false;
  uint64_t num_symbols_ = 0;  // at the start
  PairTable pairs_;
  CandidateQueue queue_;
  ScoreQueue scores_;       // instead of queue_, if by_score
  PieceQueue piece_queue_;  // instead of queue_, if pieces
  const bool allows_all_ = options_.pieces == nullptr && options_.max_token_bytes == 0;
  std::vector<Worker> workers_;
  Worker alone_;  // does merges that are left to one thread
  std::unique_ptr<WorkerPool> pool_;
  std::vector<size_t> token_bytes_;  // by id
  std::vector<Total> totals_;
  NeighbourIndex total_index_;
  std::vector<Side*> sides_;
  std::vector<uint8_t> roles_;  // by id: 1 left part, 2 right part of a merge in the batch
};

template <typename Symbol, typename Words>
void Learner::add_word(WordStore<Symbol>& store, const Words& words, size_t word) {
  Symbol* const symbols = store.symbols();
  const auto begin = static_cast<size_t>(words.offsets[word]);
  const size_t size = size_of(words, word);
  const bool is_chain = size > Units::kMaxUnit;
  const size_t unit_size = is_chain ? Units::kSegment : size;
  for (size_t start = 0; start < size; start += unit_size) {
    const size_t end = std::min(start + unit_size, size);
    store.units.add(words.counts[word], num_symbols_, end - start);
    if (is_chain) store.units.add_link(start == 0, end == size);
    for (size_t i = start; i < end; ++i)
      symbols[num_symbols_++] = static_cast<Symbol>(words.symbol(begin + i));
  }
}

template <typename Words>
void Learner::load(const Words& words) {
  if (options_.by_score) count_symbols(words);
  is_wide_ = num_symbols_known_ > options_.max_narrow_ids;
  if (is_wide_) {
    load_into(wide_, words);
  } else {
    load_into(narrow_, words);
  }
}

// Symbols of words without pairs count, too.
template <typename Words>
void Learner::count_symbols(const Words& words) {
  scores_.reset(num_symbols_known_ + max_merges_);
  for (size_t i = 0; i < words.num_words; ++i) {
    for (auto at = words.offsets[i]; at < words.offsets[i + 1]; ++at)
      scores_.count_of(words.symbol(static_cast<size_t>(at))) += words.counts[i];
  }
}

template <typename Symbol, typename Words>
void Learner::load_into(WordStore<Symbol>& store, const Words& words) {
  size_t num_units = 0;
  uint64_t num_symbols = 0;
  for (size_t i = 0; i < words.num_words; ++i) {
    if (!has_pairs(words, i)) continue;
    const size_t size = size_of(words, i);
    num_units += size <= Units::kMaxUnit ? 1 : (size + Units::kSegment - 1) / Units::kSegment;
    num_symbols += size;
  }
  if (num_units >= kNoUnit) throw std::length_error("more than 2**32 - 2 words");
  store.units.reserve(num_units);
  store.allocate(num_symbols);
  for (const bool long_words : {false, true}) {
    if (long_words) store.units.begin_chains();
    for (size_t i = 0; i < words.num_words; ++i) {
      if (has_pairs(words, i) && (size_of(words, i) > Units::kMaxUnit) == long_words)
        add_word(store, words, i);
    }
  }
  if (!options_.by_score && options_.pieces == nullptr)
    next_guess_ = std::max<size_t>(options_.first_guess, 1);
  floor_ = min_count_;
  deal_units(store.units);
  const auto all = [](uint32_t, uint32_t) { return true; };
  if (num_symbols_known_ <= kMaxDense) {
    list_pairs<DensePairs>(store, all);
  } else {
    list_pairs<HashedPairs>(store, all);
  }
}

// Deals the units, in whole words, so that workers have about equally many symbols.
void Learner::deal_units(Units& units) {
  const size_t num_ids = num_symbols_known_ + max_merges_;
  const size_t num_units = units.size();
  alone_.end_unit = num_units;
  alone_.resize(num_ids);
  alone_.effects.resize(1);
  const size_t num_workers = num_units < options_.min_parallel_units ? 1 : options_.threads;
  workers_.resize(num_workers);
  size_t unit = 0;
  for (size_t i = 0; i < num_workers; ++i) {
    const uint64_t goal = i + 1 == num_workers ? num_symbols_ : num_symbols_ / num_workers * (i + 1);
    workers_[i].first_unit = unit;
    while (unit < num_units && (units.start_of(unit) < goal || units.previous_of(unit) != kNoUnit)) ++unit;
    workers_[i].end_unit = unit;
    if (num_workers > 1) workers_[i].resize(num_ids);
  }
  if (num_workers > 1) pool_ = std::make_unique<WorkerPool>(num_workers);
}

// Calls action(unit, left, right) for every window of a worker's units.
template <typename Symbol, typename Action>
void each_window(WordStore<Symbol>& store, const Worker& worker, Action action) {
  for (size_t i = worker.first_unit; i < worker.end_unit; ++i) {
    const auto unit = static_cast<uint32_t>(i);
    const size_t size = store.units[unit].num_symbols;
    if (size == 0) continue;  // of a segment that was merged into the one before
    const Symbol* const symbols = store.begin(unit);
    for (size_t at = 0; at + 1 < size; ++at) action(unit, symbols[at], symbols[at + 1]);
    const uint32_t following = store.first_of(store.units.next_of(unit));
    if (following != kNoSymbol) action(unit, symbols[size - 1], following);
  }
}

// Calls action(pair, unit) for every window that may_reach lets pass. Pairs are fetched ahead.
template <typename FirstPairs, typename Symbol, typename Filter, typename Action>
void each_pair(WordStore<Symbol>& store, const Worker& worker, FirstPairs& pairs, Filter may_reach,
               Action action) {
  struct Window {
    uint32_t unit, left, right;
  };
  std::array<Window, 32> waiting;
  size_t num_waiting = 0;
  const auto act = [&] {
    for (size_t i = 0; i < num_waiting; ++i)
      action(pairs.at(waiting[i].left, waiting[i].right), waiting[i].unit);
    num_waiting = 0;
  };
  each_window(store, worker, [&](uint32_t unit, uint32_t left, uint32_t right) {
    if (!may_reach(left, right)) return;
    pairs.prefetch(left, right);
    waiting[num_waiting++] = {unit, left, right};
    if (num_waiting == waiting.size()) act();
  });
  act();
}

// Counts the pairs of the words as they are, and lists the units of those that reach the floor. may_reach
// tells most of the other pairs, which are not counted.
template <typename FirstPairs, typename Symbol, typename Filter>
void Learner::list_pairs(WordStore<Symbol>& store, Filter may_reach) {
  std::vector<FirstPairs> firsts;
  for (size_t i = 0; i < workers_.size(); ++i) firsts.emplace_back(num_symbols_known_);
  each_worker([&](size_t worker) {
    each_pair(store, workers_[worker], firsts[worker], may_reach, [&](FirstPair& first, uint32_t unit) {
      first.count += static_cast<int64_t>(store.units[unit].count);
      first.size.add(unit);
    });
  });
  std::optional<FirstPairs> added;  // of several workers; one has the sums already
  if (firsts.size() > 1) {
    added.emplace(num_symbols_known_);
    for (const FirstPairs& part : firsts) {
      part.for_each([&](uint32_t left, uint32_t right, const FirstPair& first) {
        if (first.size.num_units == 0) return;
        FirstPair& sum = added->at(left, right);
        sum.count += first.count;
        sum.size.add(first.size);
      });
    }
  }
  std::vector<std::pair<Candidate, UnitList>> kept;
  (added ? *added : firsts.front()).for_each([&](uint32_t left, uint32_t right, const FirstPair& sum) {
    if (sum.count >= floor_ && allowed(left, right))
      kept.emplace_back(Candidate{sum.count, pair_key(left, right)}, UnitList(sum.size));
  });
  added.reset();
  for (auto& [candidate, units] : kept) {
    UnitList::Cursor cursor = units.begin();
    for (FirstPairs& part : firsts) {
      FirstPair& place = part.at(left_of(candidate.key), right_of(candidate.key));
      if (place.size.num_units == 0) continue;
      place.cursor = cursor;
      cursor.at += UnitListSize::bytes_of(place.size.first_unit - cursor.last_unit) + place.size.num_bytes;
      cursor.last_unit = place.size.last_unit;
      place.size.num_units = 0;
    }
  }
  each_worker([&](size_t worker) {
    each_pair(store, workers_[worker], firsts[worker], may_reach, [](FirstPair& first, uint32_t unit) {
      if (first.cursor.at == nullptr || (first.size.num_units != 0 && first.cursor.last_unit == unit)) return;
      first.cursor.add(unit);
      ++first.size.num_units;
    });
  });
  firsts.clear();
  for (auto& [candidate, units] : kept) insert_pair(candidate, std::move(units));
}

// Lists the pairs that reach the floor when words have been merged already. Pairs are added up by hash first:
// where the sum is below the floor, every pair is. So few pairs have to be told apart.
template <typename Symbol>
void Learner::list_more_pairs(WordStore<Symbol>& store) {
  size_t bits = 10;
  while (bits < 40 && size_t{2} << bits < store.units.size()) ++bits;
  const auto place_of = [bits](uint32_t left, uint32_t right) {
    return fold(pair_key(left, right) ^ 0xE7037ED1A0B428DBu, 0x9E3779B97F4A7C15u) >> (64 - bits);
  };
  std::vector<uint64_t> reaching((size_t{1} << bits) / 64);  // bits
  {
    Buffer<uint64_t> sums(size_t{1} << bits);
    std::fill(sums.begin(), sums.end(), 0);
    each_worker([&](size_t worker) {
      each_window(store, workers_[worker], [&](uint32_t unit, uint32_t left, uint32_t right) {
        uint64_t& sum = sums[place_of(left, right)];
        if (pool_) {
          __atomic_fetch_add(&sum, store.units[unit].count, __ATOMIC_RELAXED);
        } else {
          sum += store.units[unit].count;
        }
      });
    });
    for (size_t i = 0; i < sums.size(); ++i) {
      if (sums[i] >= static_cast<uint64_t>(floor_)) reaching[i / 64] |= uint64_t{1} << i % 64;
    }
  }
  list_pairs<HashedPairs>(store, [&](uint32_t left, uint32_t right) {
    const uint64_t place = place_of(left, right);
    return (reaching[place / 64] >> place % 64 & 1) != 0;
  });
}

// Somewhat less than what the last merge is guessed to have as its count. Counts fall by a power of their
// rank, so by about the same factor whenever the rank doubles: 0.41 to 0.45 in the end, and by less before.
// The guess decides what learning costs, not what it finds.
int64_t Learner::guess_last_count(const std::vector<uint64_t>& counts) const {
  if (options_.guessed_count != 0) return std::max(min_count_, static_cast<int64_t>(options_.guessed_count));
  const size_t rank = counts.size();
  const auto count = static_cast<double>(counts[rank - 1]);
  const double factor = std::min(kLeastFall, count / static_cast<double>(counts[(rank - 1) / 2]));
  const double doublings = std::log2(static_cast<double>(max_merges_) / static_cast<double>(rank));
  return std::max(min_count_, static_cast<int64_t>(kMargin * count * std::pow(factor, doublings)));
}

// Forgets the pairs that are rarer than the last merge will be, by guess.
void Learner::raise_floor(const Learned& learned) {
  next_guess_ = 2 * learned.count.size();
  floor_ = std::max(floor_, guess_last_count(learned.count));
  pairs_.forget_below(floor_);
}

// Lists the pairs again with a lower floor, when none is left that reaches it: the guess was too high. False
// if the floor is the minimum already.
bool Learner::lower_floor(const Learned& learned) {
  if (floor_ <= min_count_) return false;
  floor_ = std::max(min_count_, floor_ / 4);
  if (!learned.count.empty()) floor_ = std::min(floor_, guess_last_count(learned.count));
  pairs_ = PairTable(floor_);
  queue_ = {};
  if (is_wide_) {
    list_more_pairs(wide_);
  } else {
    list_more_pairs(narrow_);
  }
  return true;
}

// The pair to merge next, which stays at the top of the queue; nothing if no pair is left.
std::optional<Candidate> Learner::next_candidate() {
  if (options_.by_score) return scores_.next(pairs_);
  if (options_.pieces != nullptr) return piece_queue_.next(pairs_);
  while (queue_.ready(pairs_)) {
    const Candidate top = queue_.top();
    const PairTable::Pair* const pair = pairs_.find(top.key);
    if (pair != nullptr && pair->count == top.count) return top;
    queue_.pop();
    if (pair != nullptr) queue_.push({pair->count, top.key});
  }
  return std::nullopt;
}

// The next merges that do not change each other: no symbol is a left part of one and a right part of another.
// Then no merge lowers the count of another, and no pair that a merge creates comes before another merge of
// the batch. Empty if no pair is left. By score, and by the rules of SentencePiece, every merge is a batch of
// its own.
std::vector<MergeStep> Learner::next_batch(Learned& learned) {
  constexpr uint8_t kLeft = 1, kRight = 2;
  std::vector<MergeStep> batch;
  size_t num_units = 0;
  const size_t most = options_.by_score || options_.pieces != nullptr ? 1 : kMaxBatchMerges;
  while (batch.size() < most && learned.left.size() < max_merges_ && num_units < kMaxBatchUnits) {
    const std::optional<Candidate> candidate = next_candidate();
    if (!candidate) break;
    const uint32_t left = left_of(candidate->key), right = right_of(candidate->key);
    if ((roles_[left] & kRight) != 0 || (roles_[right] & kLeft) != 0) break;
    if (left == right && !batch.empty()) break;
    roles_[left] |= kLeft;
    roles_[right] |= kRight;
    if (options_.by_score) {
      scores_.pop();
    } else if (options_.pieces != nullptr) {
      piece_queue_.pop();
      piece_queue_.add_symbol(left, right);
    } else {
      queue_.pop();
    }
    const auto merged = static_cast<uint32_t>(num_symbols_known_ + learned.left.size());
    batch.push_back({left, right, merged, pairs_.take(candidate->key), {}});
    num_units += batch.back().packed.size();
    batch.back().packed.prefetch();
    token_bytes_.push_back(token_bytes_[left] + token_bytes_[right]);
    learned.left.push_back(static_cast<int32_t>(left));
    learned.right.push_back(static_cast<int32_t>(right));
    learned.count.push_back(static_cast<uint64_t>(candidate->count));
    if (left == right) break;
  }
  for (MergeStep& step : batch) {
    roles_[step.left] = roles_[step.right] = 0;
    step.units = std::exchange(step.packed, {}).unpacked();
  }
  return batch;
}

// Prefetches the first units of the next merge.
void Learner::prefetch_units(const MergeStep& step) const {
  const Units& units = is_wide_ ? wide_.units : narrow_.units;
  const size_t size = std::min<size_t>(step.units.size(), kPrefetchUnits);
  for (size_t i = 0; i < size; ++i) units.prefetch(step.units[i]);
}

void Learner::prefetch_symbols(const MergeStep& step) const {
  const size_t size = std::min<size_t>(step.units.size(), kPrefetchSymbols);
  for (size_t i = 0; i < size; ++i) {
    const uint32_t unit = step.units[i];
    if (is_wide_) {
      __builtin_prefetch(wide_.begin(unit), 1);
    } else {
      __builtin_prefetch(narrow_.begin(unit), 1);
    }
  }
}

void Learner::apply_batch(const std::vector<MergeStep>& batch) {
  size_t num_units = 0;
  for (const MergeStep& step : batch) num_units += step.units.size();
  if (!is_wide_ && batch.back().merged >= options_.max_narrow_ids) {
    wide_ = std::move(narrow_).widen<uint32_t>();
    narrow_ = {};
    is_wide_ = true;
  }
  const auto apply_step = [this](const MergeStep& step, Worker& worker, Effects& effects) {
    if (is_wide_) {
      apply(wide_, Job{step, worker, effects, pairs_});
    } else {
      apply(narrow_, Job{step, worker, effects, pairs_});
    }
  };
  if (!pool_ || num_units < options_.min_parallel_units) {
    for (size_t k = 0; k < batch.size(); ++k) {
      if (k + 1 < batch.size()) prefetch_units(batch[k + 1]);
      apply_step(batch[k], alone_, alone_.effects[0]);
      if (k + 1 < batch.size()) prefetch_symbols(batch[k + 1]);
      settle(batch[k], {&alone_.effects[0]});
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

// Adds up the workers' notes for one side of a merge. For each neighbour, lowers the count of the pair that
// was lost and inserts the new pair with its units.
template <typename LostPair, typename NewPair>
void Learner::settle_side(const std::vector<Side*>& parts, LostPair lost_pair, NewPair new_pair) {
  totals_.clear();
  for (Side* part : parts) {
    for (const Neighbour& neighbour : part->neighbours) {
      uint32_t& place = total_index_[neighbour.id];
      if (place == 0) {
        totals_.push_back({neighbour.id, 0, {}, {}, {}});
        place = static_cast<uint32_t>(totals_.size());
      }
      totals_[place - 1].size.add(neighbour.size);
      totals_[place - 1].count += neighbour.count;
    }
  }
  for (Total& total : totals_) {
    const Candidate created = new_pair(total.id, total.count);
    if (created.count < floor_ || !allowed(left_of(created.key), right_of(created.key))) continue;
    total.units = UnitList(total.size);
    total.cursor = total.units.begin();
  }
  for (Side* part : parts) {
    for (const Place& place : part->places) {
      Total& total = totals_[total_index_[part->neighbours[place.neighbour].id] - 1];
      if (total.cursor.at != nullptr) total.cursor.add(place.unit);
    }
    if (part->places.capacity() > kMaxKeptPlaces) std::vector<Place>().swap(part->places);
  }
  for (Total& total : totals_) {
    pairs_.lower(lost_pair(total.id), total.count);
    if (total.cursor.at == nullptr) continue;
    const Candidate created = new_pair(total.id, total.count);
    insert_pair(created, std::move(total.units));
  }
  for (Side* part : parts) {
    if (part->neighbours.capacity() > kMaxKeptNeighbours) std::vector<Neighbour>().swap(part->neighbours);
  }
  for (const Total& total : totals_) total_index_[total.id] = 0;
}

// Updates the counts after a merge. If x (a b) y became x Z y, then (x, a) and (b, y) are lost, (x, Z) and
// (Z, y) are new. x is the symbol there after the replacements to the left, y the one before those to the
// right. So (Z, Z) from (a b)(a b) first counts as (Z, a) on the right, and is then taken from that on the
// left.
void Learner::settle(const MergeStep& step, const std::vector<Effects*>& parts) {
  if (options_.by_score) {
    for (const Effects* part : parts) {
      const auto num_replaced = static_cast<uint64_t>(part->num_replaced);
      scores_.count_of(step.left) -= num_replaced;
      scores_.count_of(step.right) -= num_replaced;
      scores_.count_of(step.merged) += num_replaced;
    }
  }
  sides_.clear();
  int64_t repeated = 0;  // (Z, Z)
  for (Effects* part : parts) {
    sides_.push_back(&part->left);
    for (const Neighbour& neighbour : part->left.neighbours) {
      if (neighbour.id == step.merged) repeated += neighbour.count;
    }
  }
  settle_side(
      sides_, [&](uint32_t id) { return pair_key(id, step.left); },
      [&](uint32_t id, int64_t count) { return Candidate{count, pair_key(id, step.merged)}; });
  sides_.clear();
  for (Effects* part : parts) sides_.push_back(&part->right);
  settle_side(
      sides_, [&](uint32_t id) { return pair_key(step.right, id); },
      [&](uint32_t id, int64_t count) {
        return Candidate{id == step.left ? count - repeated : count, pair_key(step.merged, id)};
      });
  if (options_.by_score) {
    // Every pair that was lost is of one of them.
    scores_.count_changed(step.left, pairs_);
    scores_.count_changed(step.right, pairs_);
  }
}

Learned Learner::run() {
  Learned learned;
  learned.left.reserve(max_merges_);
  learned.right.reserve(max_merges_);
  learned.count.reserve(max_merges_);
  while (learned.left.size() < max_merges_) {
    const std::vector<MergeStep> batch = next_batch(learned);
    if (batch.empty()) {
      if (!lower_floor(learned)) break;
      continue;
    }
    apply_batch(batch);
    if (learned.count.size() >= next_guess_) raise_floor(learned);
    if (options_.merges_done != nullptr) {
      __atomic_store_n(options_.merges_done, static_cast<int64_t>(learned.left.size()), __ATOMIC_RELAXED);
    }
  }
  return learned;
}

template <typename Words>
Learned learn_from(const Words& words, std::vector<size_t> symbol_bytes, const LearnOptions& options) {
  // The number of all windows bounds the count of every pair, and windows never become more.
  constexpr auto kMaxWindows = static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
  uint64_t weighted_windows = 0, windows = 0, weighted_symbols = 0;
  for (size_t i = 0; i < words.num_words; ++i) {
    const uint64_t size = size_of(words, i);
    if (options.by_score) {
      uint64_t weighted;
      if (__builtin_mul_overflow(size, words.counts[i], &weighted) ||
          weighted > kMaxWindows - weighted_symbols)
        return {LearnStatus::kCountOverflow, {}, {}, {}};
      weighted_symbols += weighted;
    }
    if (!has_pairs(words, i)) continue;
    uint64_t weighted;
    if (__builtin_mul_overflow(size - 1, words.counts[i], &weighted) ||
        weighted > kMaxWindows - weighted_windows)
      return {LearnStatus::kCountOverflow, {}, {}, {}};
    weighted_windows += weighted;
    windows += size - 1;
  }
  if (windows == 0 || options.num_merges == 0) return {};
  Learner learner(options, std::move(symbol_bytes),
                  static_cast<size_t>(std::min<uint64_t>(options.num_merges, windows)));
  learner.load(words);
  return learner.run();
}

}  // namespace

Learned learn(const uint8_t* data, const int64_t* offsets, const uint64_t* counts, size_t num_words,
              const LearnOptions& options) {
  return learn_from(ByteWords{data, options.id_of_byte, offsets, counts, num_words},
                    std::vector<size_t>(kNumBytes, 1), options);
}

Learned learn_symbols(const uint32_t* symbols, const int64_t* offsets, const uint64_t* counts,
                      size_t num_words, std::vector<size_t> symbol_bytes, const LearnOptions& options) {
  return learn_from(SymbolWords{symbols, offsets, counts, num_words}, std::move(symbol_bytes), options);
}

}  // namespace tokcore
