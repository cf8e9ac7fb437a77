// Documents in any bytes, counted whole, in parts that are merged, and by several counters at once; and
// documents that the caller has cut, some of them wrongly.
#include <map>
#include <memory>

#include "count/counter.h"
#include "count/row_merger.h"
#include "input.h"

namespace {

using namespace tokcore;
using namespace tokcore::fuzz;

struct Row {
  uint64_t count = 0, documents = 0;
  bool operator==(const Row&) const = default;
};
using Table = std::map<std::string, Row>;

Table table_of(const Rows& rows) {
  Table table;
  const auto* data = reinterpret_cast<const char*>(rows.data.data());
  for (size_t i = 0; i < rows.size(); ++i) {
    std::string key(data + rows.offsets[i], data + rows.offsets[i + 1]);
    expect(table.empty() || table.rbegin()->first < key, "rows are sorted by their bytes, each key once");
    table.emplace(std::move(key), Row{rows.counts[i], rows.documents[i]});
  }
  return table;
}

// Cuts what is too long: as far as the limit, but not inside of a well-formed character.
void count_parts(std::string_view piece, size_t limit, std::map<std::string, uint64_t>* counts) {
  while (limit != 0 && piece.size() > limit) {
    size_t cut = limit;
    for (size_t back = 1; back <= 3 && back <= cut; ++back) {
      const auto lead = static_cast<uint8_t>(piece[cut - back]);
      const size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : lead >= 0xC2 ? 2 : 1;
      if (length <= back || cut - back + length > piece.size()) continue;
      const auto second = static_cast<uint8_t>(piece[cut - back + 1]);
      bool well_formed = lead <= 0xF4 && !(lead == 0xE0 && second < 0xA0) &&
                         !(lead == 0xED && second > 0x9F) && !(lead == 0xF0 && second < 0x90) &&
                         !(lead == 0xF4 && second > 0x8F);
      for (size_t i = 1; i < length; ++i)
        well_formed = well_formed && (static_cast<uint8_t>(piece[cut - back + i]) & 0xC0) == 0x80;
      if (!well_formed) continue;
      cut -= back;
      break;
    }
    ++(*counts)[std::string(piece.substr(0, cut))];
    piece.remove_prefix(cut);
  }
  ++(*counts)[std::string(piece)];
}

Rows merged(const std::vector<Rows>& runs, size_t block, size_t max_rows) {
  RowMerger merger(std::vector<uint64_t>(runs.size(), 1));
  std::vector<size_t> next(runs.size(), 0);
  Rows out;
  while (!merger.done()) {
    for (const size_t run : merger.hungry()) {
      const size_t begin = next[run], end = std::min(runs[run].size(), begin + block);
      if (begin == end) {
        merger.finish(run);
        continue;
      }
      merger.feed(run, {runs[run].data.data(), runs[run].offsets.data() + begin,
                        runs[run].counts.data() + begin, runs[run].documents.data() + begin, end - begin});
      next[run] = end;
    }
    expect(merger.merge(out.size() + max_rows, out).status == MergeStatus::kOk, "sorted rows are merged");
  }
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Input input(data, size);
  const auto forms = implementations();
  const Scanner scanner(static_cast<Pattern>(input.below(7)), forms[input.below(forms.size())]);
  const uint8_t wanted = input.byte();
  const size_t limit = wanted % 2 == 0 ? 0 : 4 + wanted / 2;
  const size_t num_runs = 1 + input.below(4), block = 1 + input.below(40), max_rows = 1 + input.below(200);
  std::string content;
  std::vector<int64_t> offsets{0};
  const size_t num_documents = 1 + input.below(12);
  for (size_t i = 0; i < num_documents; ++i) {
    content += i + 1 == num_documents ? input.rest() : input.take(input.below(300));
    offsets.push_back(static_cast<int64_t>(content.size()));
  }
  const auto text = exact(content);

  Table expected;
  std::vector<int64_t> ends, firsts{0};
  for (size_t i = 0; i < num_documents; ++i) {
    std::map<std::string, uint64_t> counts;
    const uint8_t* begin = text.get() + offsets[i];
    const auto length = static_cast<size_t>(offsets[i + 1] - offsets[i]);
    for (size_t at = 0; at < length;) {
      uint64_t end = 0;
      expect(scanner.scan(begin, length, at, &end, 1) == 1, "there is a pre-token");
      count_parts({reinterpret_cast<const char*>(begin) + at, end - at}, limit, &counts);
      ends.push_back(offsets[i] + static_cast<int64_t>(end));
      at = end;
    }
    firsts.push_back(static_cast<int64_t>(ends.size()));
    for (const auto& [key, count] : counts) {
      expected[key].count += count;
      expected[key].documents += 1;
    }
  }

  Counter whole(scanner, limit);
  expect(whole.add(text.get(), content.size(), offsets.data(), num_documents) == CounterStatus::kOk,
         "counted");
  expect(table_of(whole.take()) == expected, "counts are those of the definition");
  expect(whole.add_pieces(text.get(), content.size(), offsets.data(), num_documents, ends.data(),
                          firsts.data()) == CounterStatus::kOk,
         "counted");
  expect(table_of(whole.take()) == expected, "pieces count as what the scanner cuts");

  std::vector<Rows> runs;
  for (size_t run = 0; run < num_runs; ++run) {
    const size_t first = num_documents * run / num_runs, last = num_documents * (run + 1) / num_runs;
    Counter counter(scanner, limit);
    expect(
        counter.add(text.get(), content.size(), offsets.data() + first, last - first) == CounterStatus::kOk,
        "counted");
    runs.push_back(counter.take());
  }
  expect(table_of(merged(runs, block, max_rows)) == expected, "the sum of parts is the whole");

  std::vector<std::unique_ptr<Counter>> counters;
  std::vector<Counter*> all;
  for (size_t run = 0; run < num_runs; ++run) {
    const size_t first = num_documents * run / num_runs, last = num_documents * (run + 1) / num_runs;
    all.push_back(counters.emplace_back(std::make_unique<Counter>(scanner, limit)).get());
    expect(
        all[run]->add(text.get(), content.size(), offsets.data() + first, last - first) == CounterStatus::kOk,
        "counted");
  }
  Table together;
  for (const Rows& part : Counter::take_all(all, 1 + block % 3)) {
    for (auto& [key, row] : table_of(part)) {
      expect(together.empty() || together.rbegin()->first < key, "parts follow each other");
      together.emplace(key, row);
    }
  }
  expect(together == expected, "counters add up to the whole");

  // Ends that are anywhere: refused, and nothing of it counted, or as if they were right.
  if (!ends.empty()) ends[wanted % ends.size()] += static_cast<int64_t>(block) - 20;
  if (const CounterStatus status = whole.add_pieces(text.get(), content.size(), offsets.data(), num_documents,
                                                    ends.data(), firsts.data());
      status != CounterStatus::kOk) {
    expect(status == CounterStatus::kBadOffsets && whole.take().size() == 0,
           "nothing counted of what is wrong");
  }
  return 0;
}
