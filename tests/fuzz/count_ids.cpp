// Documents of token ids, small and far apart, compared with a map.
#include <map>

#include "count/id_counter.h"
#include "input.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tokcore::fuzz;
  static constexpr int32_t kFar[] = {1 << 22, 2'147'483'647, 2'147'483'646, 1 << 30, (1 << 22) - 1};
  struct Row {
    uint64_t count = 0, documents = 0, most = 0;
  };
  Input input(data, size);
  // Ids below 2^22 take memory up to the largest: too slow to do it often.
  const size_t num_far = input.byte() % 64 == 63 ? std::size(kFar) : std::size(kFar) - 1;
  tokcore::IdCounter counter;
  for (int take = 0; take < 2; ++take) {  // a counter is used again
    std::map<int32_t, Row> expected;
    for (size_t batches = input.below(4); batches > 0; --batches) {
      std::vector<int32_t> ids;
      std::vector<int64_t> offsets{0};
      for (size_t documents = input.below(6); documents > 0; --documents) {
        std::map<int32_t, uint64_t> of_document;
        for (size_t n = input.below(60); n > 0; --n) {
          const uint8_t kind = input.byte();
          const int32_t id = kind < 200   ? kind % 50
                             : kind < 230 ? static_cast<int32_t>(input.below(1 << 16))
                                          : kFar[kind % num_far];
          for (int repeats = kind % 32 == 7 ? 300 : 1; repeats > 0; --repeats) {
            ids.push_back(id);
            ++of_document[id];
          }
        }
        offsets.push_back(static_cast<int64_t>(ids.size()));
        for (const auto& [id, count] : of_document) {
          Row& row = expected[id];
          row = {row.count + count, row.documents + 1, std::max(row.most, count)};
        }
      }
      ids.shrink_to_fit();
      counter.add(ids.data(), offsets.data(), offsets.size() - 1);
    }
    const tokcore::IdRows rows = counter.take();
    expect(rows.ids.size() == expected.size(), "as many ids");
    size_t at = 0;
    for (const auto& [id, row] : expected) {
      expect(rows.ids[at] == id && rows.counts[at] == row.count && rows.documents[at] == row.documents &&
                 rows.max_in_document[at] == row.most,
             "the same figures");
      ++at;
    }
  }
  return 0;
}
