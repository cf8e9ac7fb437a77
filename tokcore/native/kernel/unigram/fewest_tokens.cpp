#include "unigram/fewest_tokens.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <string_view>
#include <utility>

#include "memory/wide.h"
#include "memory/worker_pool.h"
#include "unigram/score_trie.h"

namespace tokcore {
namespace {

constexpr size_t kDroppedOf = 4;  // a quarter goes in each round
constexpr size_t kWordsAtATime = 1024;

// All tokens within one word, and its fewest tokens up to each place and from there on. Keeps its memory from
// word to word.
class WordEdges {
 public:
  // Calls action(token, how many tokens more the word needs without it) for each token of more than one byte
  // that the word cannot do without. None is passed twice.
  template <typename Action>
  void for_each_loss(const ScoreTrie& trie, const uint8_t* text, size_t size, Action action) {
    find(trie, text, size);
    handled_.clear();
    const uint32_t fewest = before_[size];
    for (size_t end = size; end > 0;) {
      const size_t edge = last_edge_[end];
      const uint32_t token = tokens_[edge];
      const size_t start = starts_[edge];
      if (end - start > 1) {
        uint32_t without = 0;
        if (std::count(tokens_.begin(), tokens_.end(), token) == 1) {
          without = find_fewest_around(start, end);
        } else if (std::find(handled_.begin(), handled_.end(), token) == handled_.end()) {
          handled_.push_back(token);
          without = find_fewest_without(token, size);
        }
        if (without > fewest) action(token, without - fewest);
      }
      end = start;
    }
  }

 private:
  static constexpr uint32_t kMost = UINT32_MAX;

  void find(const ScoreTrie& trie, const uint8_t* text, size_t size) {
    starts_.clear();
    ends_.clear();
    tokens_.clear();
    first_edge_.resize(size + 1);
    last_edge_.resize(size + 1);
    before_.assign(size + 1, kMost);
    before_[0] = 0;
    longest_ = 0;
    const ScoreTrie::Unit* const units = trie.units();
    for (size_t start = 0; start < size; ++start) {
      first_edge_[start] = tokens_.size();
      const uint32_t fewest = before_[start] + 1;
      uint32_t first = trie.root();
      for (size_t end = start; end < size;) {
        const uint32_t at = first + text[end];
        const ScoreTrie::Unit unit = units[at];
        if (!unit.is_reached_by(text[end])) break;
        ++end;
        first = unit.first();
        if (unit.score == ScoreTrie::kNoScore) continue;
        if (fewest < before_[end]) {
          before_[end] = fewest;
          last_edge_[end] = tokens_.size();
        }
        longest_ = std::max(longest_, end - start);
        starts_.push_back(static_cast<uint32_t>(start));
        ends_.push_back(static_cast<uint32_t>(end));
        tokens_.push_back(trie.ended(at).piece);
      }
    }
    first_edge_[size] = tokens_.size();
    after_.assign(size + 1, kMost);
    after_[size] = 0;
    for (size_t edge = tokens_.size(); edge-- > 0;)
      after_[starts_[edge]] = std::min(after_[starts_[edge]], after_[ends_[edge]] + 1);
  }

  // The fewest tokens of the word without one that it holds at one place only: its cuts have an end within
  // that place, or another token across it.
  uint32_t find_fewest_around(size_t start, size_t end) const {
    uint32_t fewest = kMost;
    for (size_t inner = start + 1; inner < end; ++inner)
      fewest = std::min(fewest, before_[inner] + after_[inner]);
    for (size_t begin = end - std::min(end, longest_); begin <= start; ++begin) {
      for (size_t edge = first_edge_[begin + 1]; edge-- > first_edge_[begin] && ends_[edge] >= end;) {
        if (begin != start || ends_[edge] != end)
          fewest = std::min(fewest, before_[begin] + 1 + after_[ends_[edge]]);
      }
    }
    return fewest;
  }

  uint32_t find_fewest_without(uint32_t token, size_t size) {
    fewest_.assign(size + 1, kMost);
    fewest_[0] = 0;
    for (size_t edge = 0; edge < tokens_.size(); ++edge) {
      if (tokens_[edge] != token)
        fewest_[ends_[edge]] = std::min(fewest_[ends_[edge]], fewest_[starts_[edge]] + 1);
    }
    return fewest_[size];
  }

  // Edges, by start, then by end.
  std::vector<uint32_t> starts_;
  std::vector<uint32_t> ends_;
  std::vector<uint32_t> tokens_;
  std::vector<size_t> first_edge_;  // by start
  std::vector<size_t> last_edge_;   // by end: of the cut with the fewest tokens, the longest if several are
  std::vector<uint32_t> before_;
  std::vector<uint32_t> after_;
  std::vector<uint32_t> fewest_;
  std::vector<uint32_t> handled_;
  size_t longest_ = 0;
};

class Dropper {
 public:
  Dropper(const ByteStrings& words, const uint64_t* counts, const ByteStrings& tokens,
          const FewestTokensOptions& options)
      : words_(words), counts_(counts), tokens_(tokens), options_(options), edges_(options.threads) {
    if (options.threads > 1) pool_ = std::make_unique<WorkerPool>(options.threads);
  }

  KeptTokens run() {
    KeptTokens result;
    if ((result.status = check()) != FewestTokensStatus::kOk) return result;
    std::vector<int32_t> bytes, longer;
    for (size_t i = 0; i < tokens_.num; ++i)
      (token(i).size() == 1 ? bytes : longer).push_back(static_cast<int32_t>(i));
    const size_t wanted = options_.num_kept > bytes.size() ? options_.num_kept - bytes.size() : 0;
    while (longer.size() > wanted) {
      if (!build_trie(bytes, longer)) return {FewestTokensStatus::kTooMany, {}};
      const size_t left = longer.size() - std::max<size_t>(longer.size() / kDroppedOf, 1);
      keep(std::max(wanted, left), sum_losses(), &longer);
    }
    result.places = std::move(longer);
    result.places.insert(result.places.end(), bytes.begin(), bytes.end());
    std::sort(result.places.begin(), result.places.end());
    return result;
  }

 private:
  std::string_view token(size_t i) const {
    return {reinterpret_cast<const char*>(tokens_.data) + tokens_.offsets[i],
            static_cast<size_t>(tokens_.offsets[i + 1] - tokens_.offsets[i])};
  }

  FewestTokensStatus check() const {
    constexpr uint64_t kMost = (uint64_t{1} << 63) - 1;
    Wide128 sum{0, 0};
    for (size_t i = 0; i < words_.num; ++i) {
      const auto size = static_cast<uint64_t>(words_.offsets[i + 1] - words_.offsets[i]);
      sum = multiply_add(size, counts_[i], sum.low, 0);
      if (sum.high != 0 || sum.low > kMost) return FewestTokensStatus::kCountOverflow;
    }
    std::vector<std::string_view> sorted;
    for (size_t i = 0; i < tokens_.num; ++i) sorted.push_back(token(i));
    std::sort(sorted.begin(), sorted.end());
    if (!sorted.empty() && sorted.front().empty()) return FewestTokensStatus::kEmptyToken;
    if (std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end())
      return FewestTokensStatus::kDuplicateToken;
    const auto of_one_byte =
        std::count_if(sorted.begin(), sorted.end(), [](std::string_view text) { return text.size() == 1; });
    return of_one_byte == 256 ? FewestTokensStatus::kOk : FewestTokensStatus::kMissingByte;
  }

  // Earlier tokens, which are more frequent, lie close together.
  bool build_trie(const std::vector<int32_t>& bytes, const std::vector<int32_t>& longer) {
    std::vector<ScoreTrie::Entry> entries;
    for (const std::vector<int32_t>* const places : {&bytes, &longer}) {
      for (const int32_t place : *places)
        entries.push_back(
            {token(static_cast<size_t>(place)), static_cast<uint32_t>(place), -static_cast<float>(place)});
    }
    return trie_.build(std::move(entries));
  }

  // By place. A word of n bytes needs at most n - 1 tokens more, so no sum passes that of check().
  std::vector<uint64_t> sum_losses() {
    std::vector<std::vector<uint64_t>> parts(options_.threads, std::vector<uint64_t>(tokens_.num));
    std::atomic<size_t> next{0};
    const auto work = [&](size_t thread) {
      std::vector<uint64_t>& losses = parts[thread];
      for (size_t first; (first = next.fetch_add(kWordsAtATime)) < words_.num;) {
        for (size_t i = first; i < std::min(first + kWordsAtATime, words_.num); ++i) {
          const auto size = static_cast<size_t>(words_.offsets[i + 1] - words_.offsets[i]);
          if (size < 2 || counts_[i] == 0) continue;
          edges_[thread].for_each_loss(
              trie_, words_.data + words_.offsets[i], size,
              [&](uint32_t token, uint32_t more) { losses[token] += more * counts_[i]; });
        }
      }
    };
    if (pool_) {
      pool_->run(work);
    } else {
      work(0);
    }
    for (size_t thread = 1; thread < parts.size(); ++thread) {
      for (size_t i = 0; i < tokens_.num; ++i) parts[0][i] += parts[thread][i];
    }
    return std::move(parts[0]);
  }

  static void keep(size_t num, const std::vector<uint64_t>& losses, std::vector<int32_t>* places) {
    std::sort(places->begin(), places->end(), [&](int32_t a, int32_t b) {
      const uint64_t loss_of_a = losses[static_cast<size_t>(a)], loss_of_b = losses[static_cast<size_t>(b)];
      return loss_of_a != loss_of_b ? loss_of_a > loss_of_b : a < b;
    });
    places->resize(num);
  }

  const ByteStrings& words_;
  const uint64_t* const counts_;
  const ByteStrings& tokens_;
  const FewestTokensOptions& options_;
  ScoreTrie trie_;
  std::vector<WordEdges> edges_;  // of each thread
  std::unique_ptr<WorkerPool> pool_;
};

}  // namespace

KeptTokens drop_least_needed(const ByteStrings& words, const uint64_t* counts, const ByteStrings& tokens,
                             const FewestTokensOptions& options) {
  return Dropper(words, counts, tokens, options).run();
}

}  // namespace tokcore
