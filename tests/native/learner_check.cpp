// Runs counter, row merger and learner on generated input in memory of exactly its size, for sanitizers to
// watch, and compares what must be equal: any number of threads, narrow and wide symbols, rows in any blocks.
// Exits 1 if it is not.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "count/counter.h"
#include "count/row_merger.h"
#include "learn/learner.h"

// A scanner that cuts after spaces is enough here: the real ones have their own check.
size_t tokcore::Scanner::scan(const uint8_t* text, size_t size, size_t begin, uint64_t* ends,
                              size_t capacity) const {
  size_t written = 0;
  while (begin < size && written < capacity) {
    while (begin < size && text[begin] != ' ') ++begin;
    if (begin < size) ++begin;
    ends[written++] = begin;
  }
  return written;
}

namespace {

using namespace tokcore;

void expect(bool condition, const char* what) {
  if (condition) return;
  std::printf("failed: %s\n", what);
  std::exit(1);
}

bool same(const Learned& a, const Learned& b) {
  return a.status == b.status && a.left == b.left && a.right == b.right && a.count == b.count;
}

bool same(const Rows& a, const Rows& b) {
  return a.data == b.data && a.offsets == b.offsets && a.counts == b.counts && a.documents == b.documents;
}

RowView view(const Rows& rows, size_t begin, size_t end) {
  return {rows.data.data(), rows.offsets.data() + begin, rows.counts.data() + begin,
          rows.documents.data() + begin, end - begin};
}

struct Text {
  std::unique_ptr<uint8_t[]> data;
  std::vector<int64_t> offsets{0};
};

// Documents of words over few letters, some of them long.
Text generated(std::mt19937& random, size_t num_documents) {
  std::vector<uint8_t> bytes;
  Text text;
  for (size_t i = 0; i < num_documents; ++i) {
    for (uint32_t words = random() % 12; words > 0; --words) {
      const size_t length = random() % 40 == 0 ? random() % 900 : random() % 20;
      const uint32_t letters = 1 + random() % 5;
      for (size_t k = 0; k < length; ++k) bytes.push_back(static_cast<uint8_t>('a' + random() % letters));
      if (random() % 8 == 0) bytes.insert(bytes.end(), {0xE6, 0x97, 0xA5});
      if (random() % 16 == 0) bytes.push_back(0xE6);
      bytes.push_back(' ');
    }
    text.offsets.push_back(static_cast<int64_t>(bytes.size()));
  }
  text.data = std::make_unique<uint8_t[]>(bytes.size());
  std::copy(bytes.begin(), bytes.end(), text.data.get());
  return text;
}

Rows counted(const Text& text, size_t first, size_t last, size_t limit) {
  Counter counter(Scanner(Pattern::kCl100k, Implementation::kPortable), limit);
  const auto size = static_cast<size_t>(text.offsets.back());
  expect(counter.add(text.data.get(), size, text.offsets.data() + first, last - first) == CounterStatus::kOk,
         "add");
  return counter.take();
}

// The rows of a counter for each part of the documents, taken together.
Rows counted_together(const Text& text, const std::vector<size_t>& bounds, size_t limit, size_t num_threads) {
  std::vector<std::unique_ptr<Counter>> counters;
  std::vector<Counter*> all;
  const auto size = static_cast<size_t>(text.offsets.back());
  for (size_t i = 0; i + 1 < bounds.size(); ++i) {
    counters.push_back(
        std::make_unique<Counter>(Scanner(Pattern::kCl100k, Implementation::kPortable), limit));
    expect(counters[i]->add(text.data.get(), size, text.offsets.data() + bounds[i],
                            bounds[i + 1] - bounds[i]) == CounterStatus::kOk,
           "add");
    all.push_back(counters[i].get());
  }
  Rows out;
  for (const Rows& part : Counter::take_all(all, num_threads)) {
    const int64_t start = out.offsets.back();
    out.data.insert(out.data.end(), part.data.begin(), part.data.end());
    for (size_t i = 0; i < part.size(); ++i) out.offsets.push_back(start + part.offsets[i + 1]);
    out.counts.insert(out.counts.end(), part.counts.begin(), part.counts.end());
    out.documents.insert(out.documents.end(), part.documents.begin(), part.documents.end());
  }
  for (const Counter* counter : all) expect(counter->num_rows() == 0, "counters are empty afterwards");
  return out;
}

Rows merged(const std::vector<Rows>& runs, size_t block) {
  RowMerger merger(std::vector<uint64_t>(runs.size(), 1));
  std::vector<size_t> next(runs.size(), 0);
  Rows out;
  while (!merger.done()) {
    for (const size_t run : merger.hungry()) {
      if (next[run] == runs[run].size()) {
        merger.finish(run);
        continue;
      }
      const size_t end = std::min(runs[run].size(), next[run] + block);
      merger.feed(run, view(runs[run], next[run], end));
      next[run] = end;
    }
    expect(merger.merge(out.size() + 100, out).status == MergeStatus::kOk, "merge");
  }
  return out;
}

void check(std::mt19937& random) {
  const size_t num_documents = random() % 40;
  const Text text = generated(random, num_documents);
  const size_t limit = random() % 2 == 0 ? 0 : 4 + random() % 60;
  const Rows rows = counted(text, 0, num_documents, limit);
  const size_t third = num_documents / 3;
  const std::vector<size_t> bounds{0, third, 2 * third, num_documents};
  std::vector<Rows> runs;
  for (size_t i = 0; i < 3; ++i) runs.push_back(counted(text, bounds[i], bounds[i + 1], limit));
  expect(same(merged(runs, 1 + random() % 50), rows), "the sum of parts is the whole");
  for (const size_t num_threads : {1, 2, 3}) {
    expect(same(counted_together(text, bounds, limit, num_threads), rows), "counters add up to the whole");
  }

  uint8_t ids[256];
  for (size_t i = 0; i < 256; ++i) ids[i] = static_cast<uint8_t>(255 - i);
  LearnOptions options{.num_merges = 60, .min_count = 1, .id_of_byte = ids};
  const auto learned = [&] {
    return learn(rows.data.data(), rows.offsets.data(), rows.counts.data(), rows.size(), options);
  };
  const Learned plain = learned();
  options.min_parallel_units = 0;
  for (const size_t threads : {2, 3}) {
    options.threads = threads;
    options.max_narrow_ids = random() % 2 == 0 ? 256 + random() % 40 : 65536;
    options.first_guess = 1 + random() % 20;
    options.guessed_count = random() % 30;
    expect(same(learned(), plain), "threads, width of symbols and guesses change nothing");
  }
}

// A table that grows several times, of words that are frequent and rare, short and long, alike and not.
void check_large_table(std::mt19937& random) {
  std::string text;
  std::map<std::string, uint64_t> expected;
  for (size_t i = 0; i < 60'000; ++i) {
    const uint32_t number = random() % (1 << random() % 17);
    const std::string word =
        (number % 5 == 0 ? "the_same_beginning_" : "") + std::to_string(number * 2654435761u);
    ++expected[word + ' '];
    text += word + ' ';
  }
  const std::vector<uint8_t> bytes(text.begin(), text.end());
  const int64_t offsets[] = {0, static_cast<int64_t>(bytes.size())};
  Counter counter(Scanner(Pattern::kCl100k, Implementation::kPortable), 0);
  expect(counter.add(bytes.data(), bytes.size(), offsets, 1) == CounterStatus::kOk, "add");
  const Rows rows = counter.take();
  expect(rows.size() == expected.size(), "number of rows");
  size_t row = 0;
  for (const auto& [key, count] : expected) {
    const auto* const begin = reinterpret_cast<const char*>(rows.data.data());
    expect(std::string(begin + rows.offsets[row], begin + rows.offsets[row + 1]) == key, "keys in order");
    expect(rows.counts[row] == count && rows.documents[row] == 1, "counts");
    ++row;
  }
}

}  // namespace

int main(int, char** arguments) {
  std::mt19937 random(7);
  check_large_table(random);
  for (int rounds = std::atoi(arguments[1]); rounds > 0; --rounds) check(random);
  return 0;
}
