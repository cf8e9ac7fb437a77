#include "unigram/unigram_pieces.h"

#include <algorithm>
#include <utility>

#include "unigram/exact_math.h"

namespace tokcore {
namespace {

// The nearest multiple of 2^-kScoreBits, as that multiple.
int64_t fix(double score) {
  const double scaled = score * static_cast<double>(int64_t{1} << UnigramPieces::kScoreBits);
  return static_cast<int64_t>(scaled + (scaled < 0 ? -0.5 : 0.5));
}

}  // namespace

SymbolCodes::SymbolCodes(const std::vector<uint32_t>& by_count)
    : by_count_(by_count), rank_(by_count.size()) {
  for (uint32_t rank = 0; rank < by_count.size(); ++rank) rank_[by_count[rank]] = rank;
}

void SymbolCodes::append(const uint32_t* symbols, size_t size, std::vector<uint8_t>* out) const {
  constexpr uint32_t kNumTwo = (kFirstOfThree - kFirstOfTwo) * 256;
  for (size_t i = 0; i < size; ++i) {
    uint32_t rank = rank_[symbols[i]];
    if (rank < kFirstOfTwo) {
      out->push_back(static_cast<uint8_t>(rank));
      continue;
    }
    rank -= kFirstOfTwo;
    if (rank < kNumTwo) {
      out->push_back(static_cast<uint8_t>(kFirstOfTwo + rank / 256));
    } else {
      rank -= kNumTwo;
      out->push_back(static_cast<uint8_t>(kFirstOfThree + rank / 65536));
      out->push_back(static_cast<uint8_t>(rank / 256 % 256));
    }
    out->push_back(static_cast<uint8_t>(rank % 256));
  }
}

void SymbolCodes::decode(std::string_view text, std::vector<uint32_t>* symbols) const {
  constexpr uint32_t kNumTwo = (kFirstOfThree - kFirstOfTwo) * 256;
  symbols->clear();
  const auto* at = reinterpret_cast<const uint8_t*>(text.data());
  for (const uint8_t* const end = at + text.size(); at < end;) {
    const size_t size = size_at(at);
    uint32_t rank = *at;
    if (size == 2) rank = kFirstOfTwo + (at[0] - kFirstOfTwo) * 256u + at[1];
    if (size == 3) rank = kFirstOfTwo + kNumTwo + (at[0] - kFirstOfThree) * 65536u + at[1] * 256u + at[2];
    symbols->push_back(by_count_[rank]);
    at += size;
  }
}

void UnigramPieces::add(const SymbolCodes& codes, const uint32_t* symbols, size_t num_symbols) {
  codes.append(symbols, num_symbols, &codes_);
  starts_.push_back(codes_.size());
}

void UnigramPieces::build_trie() {
  std::vector<PieceTrie::Entry> entries;
  entries.reserve(size());
  for (uint32_t piece = 0; piece < size(); ++piece) entries.push_back({text(piece), piece, 0});
  trie_.build(std::move(entries));
}

void UnigramPieces::set_shares(const std::vector<double>& weights) {
  double sum = 0;
  for (const double weight : weights) sum += weight;
  const double log_sum = exact_log(sum);
  std::vector<double> scores(weights.size());
  std::vector<uint8_t> alive(weights.size());
  for (size_t i = 0; i < weights.size(); ++i) {
    if (weights[i] == 0) continue;
    alive[i] = 1;
    scores[i] = exact_log(weights[i]) - log_sum;
  }
  set_scores(std::move(scores), std::move(alive));
}

void UnigramPieces::set_scores(std::vector<double> scores, std::vector<uint8_t> alive) {
  scores_ = std::move(scores);
  alive_ = std::move(alive);
  follow_scores();
}

void UnigramPieces::follow_scores() {
  probabilities_.resize(size());
  fixed_scores_.resize(size());
  first_ = 0;
  bool is_first = true;
  for (size_t i = 0; i < size(); ++i) {
    if (!alive_[i]) continue;
    if (is_first) first_ = static_cast<uint32_t>(i);
    probabilities_[i] = exact_exp(scores_[i]);
    fixed_scores_[i] = fix(scores_[i]);
    least_score_ = is_first ? scores_[i] : std::min(least_score_, scores_[i]);
    is_first = false;
  }
  unknown_probability_ = exact_exp(unknown_score());
  unknown_fixed_score_ = fix(unknown_score());
}

void UnigramPieces::keep(const std::vector<uint32_t>& kept) {
  UnigramPieces out;
  for (const uint32_t i : kept) {
    out.codes_.insert(out.codes_.end(), codes_.begin() + static_cast<ptrdiff_t>(starts_[i]),
                      codes_.begin() + static_cast<ptrdiff_t>(starts_[i + 1]));
    out.starts_.push_back(out.codes_.size());
    out.scores_.push_back(scores_[i]);
    out.alive_.push_back(1);
  }
  trie_ = {};
  *this = std::move(out);
  follow_scores();
  build_trie();
}

size_t UnigramPieces::num_alive() const {
  return static_cast<size_t>(std::count(alive_.begin(), alive_.end(), uint8_t{1}));
}

}  // namespace tokcore
