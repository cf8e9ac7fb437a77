#include "predict/ngram.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "memory/number_table.h"
#include "unigram/exact_math.h"

namespace tokcore {
namespace {

constexpr uint32_t kNone = NumberTable::kNone;
constexpr double kLogOfTwo = 0x1.62E42FEFA39EFp-1;

// What is subtracted from counts of 1, of 2, and of 3 or more.
using Discounts = std::array<double, 3>;

size_t class_of(uint32_t count) { return std::min<uint32_t>(count, 3) - 1; }

Discounts estimate_discounts(const std::vector<uint32_t>& counts) {
  std::array<uint64_t, 4> with{};  // n-grams with a count of 1, 2, 3, 4
  for (const uint32_t count : counts) {
    if (count >= 1 && count <= 4) ++with[count - 1];
  }
  constexpr Discounts kWithoutEstimate{0.5, 1, 1.5};
  if (std::find(with.begin(), with.end(), 0) != with.end()) return kWithoutEstimate;
  std::array<double, 4> n;
  std::copy(with.begin(), with.end(), n.begin());
  const double y = n[0] / (n[0] + 2 * n[1]);
  Discounts discounts;
  for (size_t i = 0; i < 3; ++i) {
    const double count = static_cast<double>(i + 1);
    discounts[i] = count - (count + 1) * y * n[i + 1] / n[i];
    if (!(discounts[i] > 0 && discounts[i] <= count)) return kWithoutEstimate;
  }
  return discounts;
}

// The n-grams of one order, numbered, with what stands before their last token.
struct Grams {
  std::vector<uint32_t> at;        // by position: the n-gram that ends there, or kNone
  std::vector<uint32_t> contexts;  // by n-gram: the (n-1)-gram that it goes on from
  std::vector<uint32_t> counts;    // how often it was seen
  std::vector<uint32_t> kinds;     // how many different tokens were seen before it
};

// The counts of one order as probabilities.
class Interpolation {
 public:
  Interpolation(const std::vector<uint32_t>& counts, const std::vector<uint32_t>& contexts,
                size_t num_contexts)
      : discounts_(estimate_discounts(counts)), rows_(num_contexts) {
    for (size_t gram = 0; gram < counts.size(); ++gram) {
      const uint32_t count = counts[gram];
      if (count == 0) continue;
      Row& row = rows_[contexts[gram]];
      row.total += count;
      ++row.with[class_of(count)];
    }
  }

  // count: of the n-gram. lower: its probability without the first token of the context.
  double mix(uint32_t context, uint32_t count, double lower) const {
    if (context == kNone || rows_[context].total == 0) return lower;
    const Row& row = rows_[context];
    double discounted = 0;
    for (size_t i = 0; i < 3; ++i) discounted += discounts_[i] * row.with[i];
    const double kept = count == 0 ? 0 : count - discounts_[class_of(count)];
    return (kept + discounted * lower) / static_cast<double>(row.total);
  }

 private:
  struct Row {
    uint64_t total = 0;
    std::array<uint32_t, 3> with{};  // n-grams with a count of 1, of 2, of 3 or more
  };
  Discounts discounts_;
  std::vector<Row> rows_;
};

class Predictor {
 public:
  Predictor(const NgramDocuments& documents, const NgramOptions& options)
      : documents_(documents), options_(options), mark_(static_cast<uint32_t>(options.num_tokens)) {
    const int64_t first = documents_.offsets[0];
    const size_t num_ids = static_cast<size_t>(documents_.offsets[documents_.num_documents] - first);
    tokens_.reserve(num_ids + documents_.num_documents);
    for (size_t i = 0; i < documents_.num_documents; ++i) {
      if (i == documents_.num_learned) num_learned_ = tokens_.size();
      tokens_.push_back(mark_);
      for (int64_t at = documents_.offsets[i]; at < documents_.offsets[i + 1]; ++at)
        tokens_.push_back(static_cast<uint32_t>(documents_.ids[at]));
    }
    if (documents_.num_learned == documents_.num_documents) num_learned_ = tokens_.size();
  }

  NgramPrediction predict() {
    measure_histories();
    lower_.assign(tokens_.size() - num_learned_, 1 / static_cast<double>(options_.num_tokens));
    Grams before;  // of no token: a single one, after which all come
    before.at.assign(tokens_.size(), 0);
    before.counts.assign(1, 0);
    Grams grams = count_single_tokens();
    for (size_t order = 1;; ++order) {
      Grams longer;
      if (order < options_.order) longer = lengthen(&grams);
      interpolate(before, grams, order);
      if (order == options_.order) break;
      before = std::move(grams);
      grams = std::move(longer);
    }
    for (size_t at = num_learned_; at < tokens_.size(); ++at) {
      if (tokens_[at] == mark_) {
        prediction_.bits.push_back(0);
        continue;
      }
      prediction_.bits.back() -= exact_log(lower_[at - num_learned_]) / kLogOfTwo;
    }
    return std::move(prediction_);
  }

 private:
  // How many tokens before each token that is predicted may be looked at.
  void measure_histories() {
    histories_.assign(tokens_.size() - num_learned_, 0);
    for (size_t at = num_learned_; at < tokens_.size(); ++at) {
      if (tokens_[at] == mark_) {
        prediction_.context_bytes.push_back(0);
        continue;
      }
      uint64_t size_bytes = 0;
      uint8_t num = 0;
      while (num + size_t{1} < options_.order) {
        const uint32_t token = tokens_[at - 1 - num];
        const uint64_t length = token == mark_ ? 0 : static_cast<uint64_t>(options_.lengths[token]);
        if (size_bytes + length > options_.context_bytes) break;
        size_bytes += length;
        ++num;
        if (token == mark_) break;
      }
      histories_[at - num_learned_] = num;
      prediction_.context_bytes.back() += size_bytes;
    }
  }

  Grams count_single_tokens() const {
    Grams grams;
    grams.at = tokens_;
    grams.contexts.assign(options_.num_tokens + 1, 0);
    grams.counts.assign(options_.num_tokens + 1, 0);
    for (size_t at = 0; at < num_learned_; ++at) ++grams.counts[tokens_[at]];
    grams.counts[mark_] = 0;  // no token, but something to begin with
    return grams;
  }

  // The n-grams that are one token longer. Counts the kinds of the shorter ones.
  Grams lengthen(Grams* shorter) {
    shorter->kinds.assign(shorter->counts.size(), 0);
    Grams longer;
    longer.at.assign(tokens_.size(), kNone);
    table_.reset(num_learned_);
    for (size_t at = 1; at < tokens_.size(); ++at) {
      const uint32_t context = shorter->at[at - 1];
      if (tokens_[at] == mark_ || context == kNone) continue;
      const uint64_t key = uint64_t{context} << 32 | tokens_[at];
      if (at >= num_learned_) {
        longer.at[at] = table_.find(key);
        continue;
      }
      const uint32_t number = table_.add(key, static_cast<uint32_t>(longer.counts.size()));
      if (number == longer.counts.size()) {
        longer.counts.push_back(0);
        longer.contexts.push_back(context);
        ++shorter->kinds[shorter->at[at]];
      }
      ++longer.counts[number];
      longer.at[at] = number;
    }
    return longer;
  }

  void interpolate(const Grams& before, const Grams& grams, size_t order) {
    const size_t num_contexts = before.counts.size();
    const Interpolation highest(grams.counts, grams.contexts, num_contexts);
    const Interpolation further(grams.kinds, grams.contexts, num_contexts);
    for (size_t at = num_learned_; at < tokens_.size(); ++at) {
      const size_t history = histories_[at - num_learned_];
      if (tokens_[at] == mark_ || history + 1 < order) continue;
      const bool is_highest = history + 1 == order;
      const uint32_t gram = grams.at[at];
      const uint32_t count = gram == kNone ? 0 : (is_highest ? grams.counts : grams.kinds)[gram];
      double& lower = lower_[at - num_learned_];
      lower = (is_highest ? highest : further).mix(before.at[at - 1], count, lower);
    }
  }

  const NgramDocuments documents_;
  const NgramOptions options_;
  const uint32_t mark_;           // stands before each document
  std::vector<uint32_t> tokens_;  // of all documents
  size_t num_learned_ = 0;        // of these positions
  std::vector<uint8_t> histories_;
  std::vector<double> lower_;  // the probability of each token so far
  NumberTable table_;
  NgramPrediction prediction_;
};

}  // namespace

NgramPrediction predict_documents(const NgramDocuments& documents, const NgramOptions& options) {
  return Predictor(documents, options).predict();
}

}  // namespace tokcore
