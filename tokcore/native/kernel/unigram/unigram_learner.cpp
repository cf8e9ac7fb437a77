#include "unigram/unigram_learner.h"

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <utility>

#include "memory/worker_pool.h"
#include "unigram/exact_math.h"
#include "unigram/seed_pieces.h"
#include "unigram/unigram_lattice.h"
#include "unigram/unigram_pieces.h"

namespace tokcore {
namespace {

using Wide = unsigned __int128;

constexpr size_t kRoundsBeforeCut = 2;
// SentencePiece's numbers. Three of four pieces stay after a cut. A piece that is expected more rarely than
// kLeastExpected drops out. Characters that dropped out get the least score, each kScoreStep above the one
// before.
constexpr size_t kKeptOf = 4, kKept = 3;
constexpr double kLeastExpected = 0.5;
constexpr float kScoreStep = 0.0001f;
constexpr size_t kWordsAtATime = 1024;

double to_double(Wide number) {
  return static_cast<double>(static_cast<uint64_t>(number >> 64)) * 0x1p+64 +
         static_cast<double>(static_cast<uint64_t>(number));
}

class UnigramLearner {
 public:
  UnigramLearner(const PieceWords& words, const PieceChecker& checker, const UnigramOptions& options)
      : words_(words), options_(options), codes_(words.by_count), lattices_(options.threads) {
    code_offsets_.reserve(words.offsets.size());
    for (size_t i = 0; i + 1 < words.offsets.size(); ++i) {
      const auto begin = static_cast<size_t>(words.offsets[i]),
                 end = static_cast<size_t>(words.offsets[i + 1]);
      codes_.append(words.symbols.data() + begin, end - begin, &text_);
      code_offsets_.push_back(text_.size());
    }
    if (options.threads > 1) pool_ = std::make_unique<WorkerPool>(options.threads);
    start(checker);
  }

  std::vector<LearnedPiece> run() {
    while (true) {
      for (size_t i = 0; i < kRoundsBeforeCut; ++i) estimate();
      const size_t before = pieces_.num_alive();
      cut();
      if (pieces_.size() <= options_.num_before_last_cut || pieces_.size() == before) break;
    }
    drop_unreachable();
    return finish();
  }

 private:
  void start(const PieceChecker& checker) {
    std::vector<double> weights;
    for (const uint32_t symbol : words_.by_count) {
      pieces_.add(codes_, &symbol, 1);
      weights.push_back(static_cast<double>(words_.code_point_counts[symbol]));
    }
    const auto seeds = find_seed_pieces(words_, checker, options_.min_seed_count, options_.num_seeds);
    for (const SeedPiece& seed : seeds) {
      pieces_.add(codes_, words_.symbols.data() + seed.start, seed.size);
      weights.push_back(to_double(Wide{seed.count} * seed.size));
    }
    pieces_.build_trie();
    pieces_.set_shares(weights);
  }

  // Calls action(thread, text, size, count) for each word, on all threads.
  void for_each_word(const std::function<void(size_t, const uint8_t*, size_t, uint64_t)>& action) {
    std::atomic<size_t> next{0};
    const size_t num_words = words_.counts.size();
    const auto work = [&](size_t thread) {
      for (size_t first; (first = next.fetch_add(kWordsAtATime)) < num_words;) {
        for (size_t i = first; i < std::min(first + kWordsAtATime, num_words); ++i)
          action(thread, text_.data() + code_offsets_[i], code_offsets_[i + 1] - code_offsets_[i],
                 words_.counts[i]);
      }
    };
    if (pool_) {
      pool_->run(work);
    } else {
      work(0);
    }
  }

  // Adds up, over all threads, what action(sums of a thread, lattice, ...) counts for each piece.
  template <typename Sum, typename Action>
  std::vector<Sum> sum_over_words(Action action) {
    std::vector<std::vector<Sum>> parts(options_.threads, std::vector<Sum>(pieces_.size()));
    for_each_word([&](size_t thread, const uint8_t* text, size_t size, uint64_t count) {
      action(parts[thread], lattices_[thread], text, size, count);
    });
    for (size_t thread = 1; thread < parts.size(); ++thread) {
      for (size_t i = 0; i < parts[0].size(); ++i) parts[0][i] += parts[thread][i];
    }
    return std::move(parts[0]);
  }

  // One round: how often each piece is expected gives its next probability. Rare ones drop out.
  void estimate() {
    auto expected = sum_over_words<Wide>([this](std::vector<Wide>& sums, UnigramLattice& lattice,
                                                const uint8_t* text, size_t size, uint64_t count) {
      lattice.for_each_share(pieces_, text, size,
                             [&](uint32_t piece, uint64_t share) { sums[piece] += Wide{share} * count; });
    });
    expected[pieces_.first()] += Wide{words_.num_dividers} << UnigramLattice::kShareBits;
    const double unit = options_.scale * static_cast<double>(uint64_t{1} << UnigramLattice::kShareBits);
    std::vector<double> scores(pieces_.size());
    std::vector<uint8_t> alive(pieces_.size());
    Wide sum = 0;
    for (size_t i = 0; i < pieces_.size(); ++i) {
      scores[i] = to_double(expected[i]) / unit;
      alive[i] = pieces_.alive(i) && scores[i] >= kLeastExpected;
      if (alive[i]) sum += expected[i];
    }
    const double log_sum = sum == 0 ? 0 : exact_digamma(to_double(sum) / unit);
    for (size_t i = 0; i < pieces_.size(); ++i) scores[i] = alive[i] ? exact_digamma(scores[i]) - log_sum : 0;
    pieces_.set_scores(std::move(scores), std::move(alive));
    count_round();
  }

  // Drops the pieces whose loss would cost least, and those that the best cuts do not use.
  void cut() {
    auto used = sum_over_words<uint64_t>([this](std::vector<uint64_t>& sums, UnigramLattice& lattice,
                                                const uint8_t* text, size_t size, uint64_t count) {
      lattice.for_each_best(pieces_, text, size, [&](uint32_t piece) { sums[piece] += count; });
    });
    used[pieces_.first()] += words_.num_dividers;
    uint64_t sum = 0;
    for (const uint64_t count : used) sum += count;
    struct Candidate {
      double loss;
      uint32_t piece;
    };
    std::vector<Candidate> candidates;
    std::vector<uint32_t> kept, others;
    for (uint32_t piece = 0; piece < pieces_.size(); ++piece) {
      if (used[piece] == 0 || !pieces_.alive(piece)) continue;
      if (is_character(piece)) {
        kept.push_back(piece);
        continue;
      }
      others.clear();
      const int64_t score =
          lattices_[0].find_alternative(pieces_, piece, [&](uint32_t other) { others.push_back(other); });
      if (score > pieces_.fixed_score(piece)) continue;  // encoding would cut it
      candidates.push_back({find_loss(used, sum, piece, others), piece});
    }
    const size_t wanted = std::max(options_.num_before_last_cut, pieces_.num_alive() * kKept / kKeptOf);
    std::sort(candidates.begin(), candidates.end(), [](const Candidate& a, const Candidate& b) {
      return a.loss != b.loss ? a.loss > b.loss : a.piece < b.piece;
    });
    for (size_t i = 0; i < candidates.size() && kept.size() < wanted; ++i)
      kept.push_back(candidates[i].piece);
    pieces_.keep(kept);
    count_round();
  }

  // How much the log-likelihood of the text would fall, per token, if others took the place of a piece.
  static double find_loss(const std::vector<uint64_t>& used, uint64_t sum, uint32_t piece,
                          const std::vector<uint32_t>& others) {
    const auto all = static_cast<double>(sum), own = static_cast<double>(used[piece]);
    const double log_sum = exact_log(all + own * static_cast<double>(others.size() - 1));
    double log_others = 0;
    for (const uint32_t other : others) {
      log_others += exact_log(static_cast<double>(used[other]) + own) - log_sum;
    }
    return own / all * ((exact_log(own) - exact_log(all)) - log_others);
  }

  bool is_character(uint32_t piece) const {
    const std::string_view text = pieces_.text(piece);
    return text.size() == SymbolCodes::size_at(reinterpret_cast<const uint8_t*>(text.data()));
  }

  // Drops the pieces whose own text is better cut, in the arithmetic of encoding.
  void drop_unreachable() {
    std::vector<uint32_t> kept;
    for (uint32_t piece = 0; piece < pieces_.size(); ++piece) {
      const auto own = static_cast<float>(pieces_.score(piece));
      if (is_character(piece) || lattices_[0].measure_alternative(pieces_, piece) <= own)
        kept.push_back(piece);
    }
    pieces_.keep(kept);
  }

  // All characters, then the best of the other pieces. Characters that dropped out get the least score, or a
  // little more.
  std::vector<LearnedPiece> finish() {
    std::vector<LearnedPiece> found(words_.code_points.size()), others;
    std::vector<uint8_t> has_score(found.size());
    std::vector<uint32_t> symbols;
    for (uint32_t piece = 0; piece < pieces_.size(); ++piece) {
      codes_.decode(pieces_.text(piece), &symbols);
      const auto score = static_cast<float>(pieces_.score(piece));
      if (symbols.size() == 1) {
        found[symbols[0]] = {symbols, score};
        has_score[symbols[0]] = 1;
      } else {
        others.push_back({symbols, score});
      }
    }
    float above = 0;
    for (const uint32_t symbol : words_.by_count) {
      if (has_score[symbol]) continue;
      found[symbol] = {{symbol}, static_cast<float>(pieces_.least_score()) + above};
      above += kScoreStep;
    }
    const auto comes_before = [](const LearnedPiece& a, const LearnedPiece& b) {
      return a.score != b.score ? a.score > b.score : a.symbols < b.symbols;
    };
    std::sort(others.begin(), others.end(), comes_before);
    const size_t room = options_.num_pieces > found.size() ? options_.num_pieces - found.size() : 0;
    others.resize(std::min(others.size(), room));
    found.insert(found.end(), std::make_move_iterator(others.begin()), std::make_move_iterator(others.end()));
    std::sort(found.begin(), found.end(), comes_before);
    return found;
  }

  void count_round() {
    if (options_.rounds_done != nullptr) __atomic_fetch_add(options_.rounds_done, 1, __ATOMIC_RELAXED);
  }

  const PieceWords& words_;
  const UnigramOptions& options_;
  SymbolCodes codes_;
  std::vector<uint8_t> text_;  // the words' codes: word i is text_[code_offsets_[i] .. code_offsets_[i + 1])
  std::vector<size_t> code_offsets_{0};
  UnigramPieces pieces_;
  std::vector<UnigramLattice> lattices_;  // one a thread
  std::unique_ptr<WorkerPool> pool_;
};

}  // namespace

std::vector<LearnedPiece> learn_unigram(const PieceWords& words, const PieceChecker& checker,
                                        const UnigramOptions& options) {
  if (words.symbols.empty()) return {};
  return UnigramLearner(words, checker, options).run();
}

}  // namespace tokcore
