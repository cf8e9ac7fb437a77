// DESCRIPTION
// IdCounter counts the token ids of documents: how often each occurs, in how many documents, and how often in
// the document that has it most. A token costs a look-up of 8 bytes; the totals of an id are touched once for
// each document that has it. Memory: 32 bytes for each id up to the largest one below 2^22 that occurred, and
// an entry of a hash table for each id above. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <utility>
#include <vector>

namespace tokcore {

// Columns, by id ascending.
struct IdRows {
  std::vector<int32_t> ids;
  std::vector<uint64_t> counts;
  std::vector<uint64_t> documents;
  std::vector<uint64_t> max_in_document;
};

class IdCounter {
 public:
  // Document i is ids[offsets[i] .. offsets[i + 1]). The caller has checked that a document has fewer than
  // 2^32 ids, that none is negative, and that offsets ascend and stay within the ids.
  void add(const int32_t* ids, const int64_t* offsets, size_t num_documents);

  // All rows. Afterwards the counter is empty and keeps its memory.
  IdRows take();

 private:
  // The last document that has an id (its ordinal, from 1), and how often; 0, 0: none since the last take().
  struct Current {
    uint32_t document = 0;
    uint32_t count = 0;
  };
  // Totals of the documents before the current one.
  struct Total {
    uint64_t count = 0;
    uint64_t documents = 0;
    uint64_t max_in_document = 0;

    void add(uint32_t in_document);
  };
  struct Ended {
    int32_t id;
    uint32_t count;
  };

  void add_far(int32_t id);
  void settle(const Ended* first, const Ended* last);

  static constexpr int32_t kFirstFar = 1 << 22;
  static constexpr size_t kBatch = 1024;
  static constexpr size_t kLookPerSorted = 32;  // looking at this many places costs as much as sorting one id
  std::vector<Current> current_;                // by id, below kFirstFar
  std::vector<Total> totals_;
  std::unordered_map<int32_t, std::pair<Current, Total>> far_;
  std::vector<int32_t> seen_;  // ids since the last take(), each once
  uint32_t document_ = 0;
};

}  // namespace tokcore
