// Reads words, one on each line after its count and a tab, and prints what every learner makes of them: a
// hash of all ids, counts, code points and scores, bit by bit. Compilers, their options and C libraries must
// agree.
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <iostream>
#include <string>
#include <vector>

#include "learn/learner.h"
#include "learn/piece_limits.h"
#include "sentencepiece/piece_words.h"
#include "unigram/fewest_tokens.h"
#include "unigram/unigram_learner.h"
#include "wordpiece/character_words.h"

namespace {

using namespace tokcore;

struct Table {
  std::string bytes;
  std::vector<int64_t> offsets{0};
  std::vector<uint64_t> counts;

  const uint8_t* data() const { return reinterpret_cast<const uint8_t*>(bytes.data()); }
};

Table read_table() {
  Table table;
  for (std::string line; std::getline(std::cin, line);) {
    const size_t tab = line.find('\t');
    table.counts.push_back(std::stoull(line.substr(0, tab)));
    table.bytes += line.substr(tab + 1);
    table.offsets.push_back(static_cast<int64_t>(table.bytes.size()));
  }
  return table;
}

// FNV-1a.
class Hash {
 public:
  template <typename Values>
  void add(const Values& values) {
    add(values.data(), values.size() * sizeof(values[0]));
  }
  void add(const void* data, size_t size) {
    const auto* bytes = static_cast<const uint8_t*>(data);
    for (size_t i = 0; i < size; ++i) state_ = (state_ ^ bytes[i]) * 0x100000001B3u;
  }
  void add(const Learned& learned) {
    add(learned.left);
    add(learned.right);
    add(learned.count);
  }
  void print(const char* name, size_t size) const {
    std::printf("%s %zu %016llx\n", name, size, static_cast<unsigned long long>(state_));
  }

 private:
  uint64_t state_ = 0xCBF29CE484222325u;
};

void learn_bytes(const Table& table, size_t threads) {
  uint8_t id_of_byte[256];
  for (size_t i = 0; i < 256; ++i) id_of_byte[i] = static_cast<uint8_t>(i);
  const LearnOptions options{
      .num_merges = 3000, .threads = threads, .id_of_byte = id_of_byte, .min_parallel_units = 64};
  const Learned learned =
      learn(table.data(), table.offsets.data(), table.counts.data(), table.counts.size(), options);
  Hash hash;
  hash.add(learned);
  hash.print("bpe", learned.left.size());

  std::vector<std::string> texts;
  for (size_t i = 0; i < 256; ++i) texts.emplace_back(1, static_cast<char>(i));
  for (size_t i = 0; i < learned.left.size(); ++i)
    texts.push_back(texts[static_cast<size_t>(learned.left[i])] +
                    texts[static_cast<size_t>(learned.right[i])]);
  std::string tokens;
  std::vector<int64_t> ends{0};
  for (const std::string& text : texts) {
    tokens += text;
    ends.push_back(static_cast<int64_t>(tokens.size()));
  }
  const KeptTokens kept =
      drop_least_needed({table.data(), table.offsets.data(), table.counts.size()}, table.counts.data(),
                        {reinterpret_cast<const uint8_t*>(tokens.data()), ends.data(), texts.size()},
                        {.num_kept = 1500, .threads = threads});
  Hash of_places;
  of_places.add(kept.places);
  of_places.print("pathpiece", kept.places.size());
}

void learn_characters(const Table& table, size_t threads, bool by_score) {
  const CharacterWords words =
      make_character_words(table.data(), table.offsets.data(), table.counts.data(), table.counts.size());
  const LearnOptions options{
      .num_merges = 2000, .min_count = 2, .threads = threads, .by_score = by_score, .min_parallel_units = 64};
  const Learned learned = learn_symbols(words.symbols.data(), words.offsets.data(), words.counts.data(),
                                        words.counts.size(), words.symbol_bytes(), options);
  Hash hash;
  hash.add(words.first);
  hash.add(words.further);
  hash.add(learned);
  hash.print(by_score ? "wordpiece-pmi" : "wordpiece", learned.left.size());
}

void learn_pieces(const Table& table, size_t threads) {
  static const uint32_t kStarts[] = {0, 0x41, 0x300, 0x370, 0x3040};
  static const uint8_t kScripts[] = {0, 1, ScriptTable::kInherited, 2, 3};
  const PieceWords words = make_piece_words(table.data(), table.offsets.data(), table.counts.data(),
                                            table.counts.size(), {}, 0.9995F);
  const PieceChecker checker(words.code_points, {kStarts, kScripts, 5}, {});
  const LearnOptions options{
      .num_merges = 2000, .threads = threads, .pieces = &checker, .min_parallel_units = 64};
  const Learned learned =
      learn_symbols(words.symbols.data(), words.offsets.data(), words.counts.data(), words.counts.size(),
                    std::vector<size_t>(words.code_points.size(), 1), options);
  Hash hash;
  hash.add(words.by_count);
  hash.add(learned);
  hash.print("sentencepiece-bpe", learned.left.size());

  UnigramOptions unigram{.num_pieces = 2000, .num_before_last_cut = 2200, .scale = 3};
  unigram.threads = threads;
  const std::vector<LearnedPiece> pieces = learn_unigram(words, checker, unigram);
  Hash of_pieces;
  for (const LearnedPiece& piece : pieces) {
    of_pieces.add(piece.symbols);
    of_pieces.add(&piece.score, sizeof(piece.score));
  }
  of_pieces.print("unigram", pieces.size());
}

}  // namespace

int main(int argc, char** argv) {
  const size_t threads = argc > 1 ? std::stoul(argv[1]) : 1;
  const Table table = read_table();
  learn_bytes(table, threads);
  learn_characters(table, threads, false);
  learn_characters(table, threads, true);
  learn_pieces(table, threads);
  return 0;
}
