// Tiny tables of words in UTF-8 and in broken UTF-8: SentencePiece's merges are the same on one thread and on
// several, and by the definition; Unigram's pieces are the same for any threads and cut of the counts, all
// allowed, with all characters among them.
#include <set>

#include "input.h"
#include "learn/piece_limits.h"
#include "sentencepiece/piece_words.h"
#include "unigram/unigram_learner.h"
#include "learning.h"

namespace {

using namespace tokcore;
using namespace tokcore::fuzz;

using Text = std::vector<uint32_t>;

struct Table {
  std::string bytes;
  std::vector<int64_t> offsets{0};
  std::vector<uint64_t> counts;

  void add(std::string_view word, uint64_t count) {
    bytes += word;
    offsets.push_back(static_cast<int64_t>(bytes.size()));
    counts.push_back(count);
  }
  PieceWords make_words(const std::vector<std::string_view>& reserved, float coverage) const {
    const auto text = exact(bytes);
    return make_piece_words(text.get(), offsets.data(), counts.data(), counts.size(), reserved, coverage);
  }
};

Table cut_counts(const Table& table) {
  Table out;
  for (const bool second : {true, false}) {
    for (size_t i = 0; i < table.counts.size(); ++i) {
      const auto begin = static_cast<size_t>(table.offsets[i]),
                 end = static_cast<size_t>(table.offsets[i + 1]);
      const uint64_t part = table.counts[i] / 3;
      out.add(std::string_view(table.bytes).substr(begin, end - begin),
              second ? part : table.counts[i] - part);
    }
  }
  return out;
}

Learned merge_by_definition(const PieceWords& words, const PieceChecker& checker, size_t num_merges,
                            uint64_t min_count) {
  std::vector<Text> texts;  // of tokens
  for (uint32_t i = 0; i < words.code_points.size(); ++i) texts.push_back({i});
  Words<uint32_t> runs;
  for (size_t i = 0; i < words.counts.size(); ++i)
    runs.emplace_back(words.symbols.begin() + words.offsets[i], words.symbols.begin() + words.offsets[i + 1]);
  Learned learned;
  while (learned.left.size() < num_merges) {
    uint64_t most = 0;
    Pair<uint32_t> best;
    Text best_text;
    for (const auto& [pair, count] : count_pairs(runs, words.counts)) {
      Text text = texts[pair.first];
      text.insert(text.end(), texts[pair.second].begin(), texts[pair.second].end());
      if (count < std::max<uint64_t>(1, min_count) || !checker.allows(text.data(), text.size())) continue;
      const bool is_shorter =
          text.size() != best_text.size() ? text.size() < best_text.size() : text < best_text;
      if (count < most || (count == most && !is_shorter)) continue;
      most = count;
      best = pair;
      best_text = text;
    }
    if (most == 0) break;
    const auto made = static_cast<uint32_t>(texts.size());
    texts.push_back(best_text);
    merge(&runs, best, most, made, &learned);
  }
  return learned;
}

bool same(const std::vector<LearnedPiece>& a, const std::vector<LearnedPiece>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const LearnedPiece& one, const LearnedPiece& two) {
                      return one.symbols == two.symbols && one.score == two.score;
                    });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const char* const kLetters[] = {
      "a", "b", "\xE2\x96\x81", "1", "\xC3\xA9", "\xE6\x97\xA5", "\xCC\x81", "\xC3", "\xE2\x96\x85", "\x1F"};
  // Latin from A, Han from U+3040, marks of the script before, and others.
  static const uint32_t kStarts[] = {0, 0x41, 0x300, 0x370, 0x3040};
  static const uint8_t kScripts[] = {0, 1, ScriptTable::kInherited, 2, 3};
  Input input(data, size);
  PieceLimits limits{.max_length = 1 + input.below(17)};
  limits.split_by_unicode_script = input.flag();
  limits.split_by_number = input.flag();
  limits.split_by_whitespace = input.flag();
  limits.split_digits = input.flag();
  const float coverage = input.flag() ? 1.0f : 0.9f;
  const std::vector<std::string_view> reserved =
      input.flag() ? std::vector<std::string_view>{"ab1", "b"} : std::vector<std::string_view>{};
  const size_t num_merges = input.below(40), min_count = input.below(4);
  UnigramOptions unigram{.num_pieces = input.below(40), .num_before_last_cut = input.below(40)};
  unigram.num_seeds = input.below(60);
  unigram.scale = input.flag() ? 1 : 0.375;
  Table table;
  while (input.left() > 0 && table.counts.size() < 30) {
    const uint8_t shape = input.byte();
    std::string word;
    for (size_t i = 0; i < shape % 8; ++i) word += kLetters[input.below(std::size(kLetters))];
    std::string repeated;
    for (size_t i = shape >= 240 ? 90 : 1; i > 0; --i) repeated += word;
    table.add(repeated, input.byte());
  }
  const PieceWords words = table.make_words(reserved, coverage);
  const PieceChecker checker(words.code_points, {kStarts, kScripts, std::size(kStarts)}, limits);
  LearnOptions options{.num_merges = num_merges, .min_count = min_count, .pieces = &checker};
  const auto merges = [&] {
    return learn_symbols(words.symbols.data(), words.offsets.data(), words.counts.data(), words.counts.size(),
                         std::vector<size_t>(words.code_points.size(), 1), options);
  };
  const Learned expected = merge_by_definition(words, checker, num_merges, min_count);
  expect(same(merges(), expected), "merges are those of the definition");
  options.threads = 3;
  options.min_parallel_units = 0;
  options.max_narrow_ids = 5;
  expect(same(merges(), expected), "threads and the width of symbols change no merge");

  const std::vector<LearnedPiece> pieces = learn_unigram(words, checker, unigram);
  unigram.threads = 3;
  const PieceWords cut = cut_counts(table).make_words(reserved, coverage);
  expect(cut.code_points == words.code_points, "the cut of counts changes no character");
  expect(same(learn_unigram(cut, checker, unigram), pieces), "threads and the cut of counts change no piece");
  std::set<Text> seen;
  for (const LearnedPiece& piece : pieces) {
    expect(seen.insert(piece.symbols).second, "no piece is there twice");
    expect(piece.symbols.size() == 1 || checker.allows(piece.symbols.data(), piece.symbols.size()),
           "pieces are allowed");
  }
  for (uint32_t symbol = 0; symbol < words.code_points.size(); ++symbol)
    expect(words.symbols.empty() || seen.contains({symbol}), "characters are pieces");
  expect(pieces.size() <= std::max(unigram.num_pieces, words.code_points.size()),
         "there are no more than asked for");
  return 0;
}
