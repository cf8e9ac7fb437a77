// DESCRIPTION
// IdCounter counts the token ids of documents: how often each occurs, in how many documents, and how often in
// the one that has it most. A token costs a look-up of 8 bytes; what else is known of an id is touched once
// for each document that has it. Memory is 32 bytes for each id up to the largest below 2^22 that occurred,
// and a hash table's entry for each above. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>
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
  // Document i is ids[offsets[i] .. offsets[i + 1]): fewer than 2^32, none of them negative. Offsets ascend
  // and stay within the ids. (The caller has checked all of it.)
  void add(const int32_t* ids, const int64_t* offsets, size_t num_documents);

  // All rows; the counter is empty afterwards and keeps its memory.
  IdRows take();

 private:
  struct Current {
    uint32_t document = 0;  // the last that has the id; 0: none since the last take
    uint32_t count = 0;     // in it
  };
  struct Total {
    uint64_t count = 0;
    uint64_t documents = 0;
    uint64_t max_in_document = 0;

    void add(uint64_t in_document);
  };

  Current& current_of(int32_t id);
  Total& total_of(int32_t id);

  static constexpr int32_t kFirstFar = 1 << 22;
  std::vector<Current> current_;  // by id, below kFirstFar
  std::vector<Total> totals_;
  std::unordered_map<int32_t, Current> far_current_;
  std::unordered_map<int32_t, Total> far_totals_;
  std::vector<int32_t> seen_;  // ids since the last take, each once
  uint32_t document_ = 0;      // ordinal of the current one, from 1
};

}  // namespace tokcore
