// Tiny tables of words, learned on one thread and on several, in narrow and wide symbols, and by the
// definition.
#include "input.h"
#include "learning.h"

namespace {

using namespace tokcore;
using namespace tokcore::fuzz;

struct Table {
  std::vector<std::string> words;
  std::vector<uint64_t> counts;
};

Learned learn_by_definition(const Table& table, const LearnOptions& options) {
  Words<int32_t> words;
  std::vector<size_t> lengths(256, 1);
  unsigned __int128 windows = 0;
  for (size_t i = 0; i < table.words.size(); ++i) {
    words.emplace_back();
    for (const char byte : table.words[i])
      words.back().push_back(options.id_of_byte[static_cast<uint8_t>(byte)]);
    if (!words.back().empty())
      windows += static_cast<unsigned __int128>(words.back().size() - 1) * table.counts[i];
  }
  Learned learned;
  if (windows > INT64_MAX) {
    learned.status = LearnStatus::kCountOverflow;
    return learned;
  }
  while (learned.left.size() < options.num_merges) {
    uint64_t most = 0;
    Pair<int32_t> best;
    for (const auto& [pair, count] : count_pairs(words, table.counts)) {
      const size_t length =
          lengths[static_cast<size_t>(pair.first)] + lengths[static_cast<size_t>(pair.second)];
      if (count <= most || count < options.min_count) continue;
      if (options.max_token_bytes != 0 && length > options.max_token_bytes) continue;
      most = count;
      best = pair;
    }
    if (most == 0) break;
    const auto made = static_cast<int32_t>(lengths.size());
    lengths.push_back(lengths[static_cast<size_t>(best.first)] + lengths[static_cast<size_t>(best.second)]);
    merge(&words, best, most, made, &learned);
  }
  return learned;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Input input(data, size);
  uint8_t ids[256];
  const uint8_t turn = input.byte();
  for (size_t i = 0; i < 256; ++i) ids[i] = static_cast<uint8_t>(i * 3 + turn);  // 3 is odd: a permutation
  LearnOptions options{.num_merges = input.below(64), .id_of_byte = ids};
  options.min_count = input.number();
  if (options.min_count > 4) options.min_count = options.min_count % 8 == 5 ? options.min_count : 0;
  options.max_token_bytes = input.below(3) == 0 ? input.below(20) : 0;
  const size_t threads = 2 + input.below(2), max_narrow_ids = 256 + input.below(80);
  Table table;
  std::string bytes;
  std::vector<int64_t> offsets{0};
  while (input.left() > 0 && table.words.size() < 60) {
    const uint8_t shape = input.byte();
    std::string word(input.take(shape % 16));
    if (shape >= 224) {  // few letters, many of each: long runs and repeated pairs
      std::string many;
      for (size_t i = 0; i < 60; ++i) many += word;
      word = std::move(many);
    } else if (shape >= 96) {
      for (char& letter : word) letter = static_cast<char>('a' + static_cast<uint8_t>(letter) % 3);
    }
    bytes += word;
    offsets.push_back(static_cast<int64_t>(bytes.size()));
    table.words.push_back(std::move(word));
    table.counts.push_back(input.number());
  }
  const auto text = exact(bytes);
  const auto learned = [&] {
    return learn(text.get(), offsets.data(), table.counts.data(), table.words.size(), options);
  };
  const Learned expected = learn_by_definition(table, options);
  expect(same(learned(), expected), "merges are those of the definition");
  options.min_parallel_units = 0;
  options.threads = threads;
  options.max_narrow_ids = max_narrow_ids;
  options.first_guess = 1 + turn % 20;
  options.guessed_count =
      turn < 128 || table.counts.empty() ? size % 12 : table.counts[turn % table.counts.size()];
  expect(same(learned(), expected), "threads, the width of symbols and guesses change nothing");
  return 0;
}
