// Tiny tables of words in UTF-8 and in broken UTF-8: symbols are those of the definition, and merges, by
// count and by score, are the same on one thread and on several, in narrow and in wide symbols, and by the
// definition.
#include <set>

#include "input.h"
#include "learning.h"
#include "wordpiece/character_words.h"

namespace {

using namespace tokcore;
using namespace tokcore::fuzz;

__extension__ using Wide = unsigned __int128;

struct Symbols {
  Words<uint32_t> words;
  std::vector<uint64_t> counts;
  size_t num_symbols;
};

Symbols get_symbols(const CharacterWords& table) {
  Symbols out{{}, table.counts, table.symbol_bytes().size()};
  for (size_t i = 0; i < table.counts.size(); ++i) {
    out.words.emplace_back(table.symbols.begin() + table.offsets[i],
                           table.symbols.begin() + table.offsets[i + 1]);
  }
  return out;
}

// Counts are small enough for 128 bits.
Learned learn_by_definition(Symbols table, const LearnOptions& options) {
  Learned learned;
  while (learned.left.size() < options.num_merges) {
    std::map<uint32_t, uint64_t> singles;
    for (size_t i = 0; i < table.words.size(); ++i) {
      for (const uint32_t symbol : table.words[i]) singles[symbol] += table.counts[i];
    }
    uint64_t most = 0;
    Pair<uint32_t> best;
    for (const auto& [pair, count] : count_pairs(table.words, table.counts)) {
      if (count < std::max<uint64_t>(1, options.min_count)) continue;
      const auto scale = [&](const auto& of) {
        return static_cast<Wide>(singles[of.first]) * singles[of.second];
      };
      bool is_better = count > most;
      if (options.by_score && most != 0) {
        const Wide ours = static_cast<Wide>(count) * scale(best),
                   theirs = static_cast<Wide>(most) * scale(pair);
        is_better = ours != theirs ? ours > theirs : is_better;
      }
      if (!is_better) continue;
      most = count;
      best = pair;
    }
    if (most == 0) break;
    merge(&table.words, best, most, static_cast<uint32_t>(table.num_symbols++), &learned);
  }
  return learned;
}

void check_symbols(const CharacterWords& table, uint64_t total) {
  const size_t num_first = table.first.size(), num_symbols = num_first + table.further.size();
  expect(std::is_sorted(table.first.begin(), table.first.end()), "characters ascend");
  expect(std::is_sorted(table.further.begin(), table.further.end()), "characters that go on ascend");
  const std::set<uint32_t> first(table.first.begin(), table.first.end());
  for (const uint32_t c : table.further) expect(first.contains(c), "what goes on may begin a word");
  expect(table.symbols.size() <= total, "no character is there twice");
  for (const uint32_t symbol : table.symbols) expect(symbol < num_symbols, "symbols are known");
  expect(table.offsets.back() == static_cast<int64_t>(table.symbols.size()), "words are all symbols");
  for (size_t i = 0; i < table.counts.size(); ++i) {
    expect(table.offsets[i] < table.offsets[i + 1], "no word is empty");
    for (auto at = table.offsets[i] + 1; at < table.offsets[i + 1]; ++at)
      expect(table.symbols[static_cast<size_t>(at)] >= num_first, "the rest of a word goes on");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const char* const kLetters[] = {
      "a", "b", "#", "##", "\xC3\xA9", "\xE6\x97\xA5", " ", "\xC3", "\xF0\x9F\x98\x80"};
  Input input(data, size);
  LearnOptions options{.num_merges = input.below(48)};
  options.min_count = input.below(4);
  options.by_score = input.flag();
  const size_t threads = 2 + input.below(2), max_narrow_ids = 1 + input.below(60);
  std::string bytes;
  std::vector<int64_t> offsets{0};
  std::vector<uint64_t> counts;
  while (input.left() > 0 && counts.size() < 40) {
    const uint8_t shape = input.byte();
    if (shape >= 200) {
      bytes += input.take(shape % 8);
    } else {
      std::string word;
      for (size_t i = 0; i < shape % 8; ++i) word += kLetters[input.below(std::size(kLetters))];
      for (size_t i = shape >= 180 ? 60 : 1; i > 0; --i) bytes += word;
    }
    offsets.push_back(static_cast<int64_t>(bytes.size()));
    counts.push_back(input.byte());
  }
  const auto text = exact(bytes);
  const CharacterWords table = make_character_words(text.get(), offsets.data(), counts.data(), counts.size());
  check_symbols(table, bytes.size());
  const auto learned = [&] {
    return learn_symbols(table.symbols.data(), table.offsets.data(), table.counts.data(), table.counts.size(),
                         table.symbol_bytes(), options);
  };
  const Learned expected = learn_by_definition(get_symbols(table), options);
  expect(same(learned(), expected), "merges are those of the definition");
  options.min_parallel_units = 0;
  options.threads = threads;
  options.max_narrow_ids = max_narrow_ids;
  options.first_guess = 1 + size % 20;
  options.guessed_count = counts.empty() ? 0 : counts[size % counts.size()];
  expect(same(learned(), expected), "threads, the width of symbols and guesses change nothing");
  return 0;
}
