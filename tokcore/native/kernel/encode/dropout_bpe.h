// DESCRIPTION
// DropoutBpe merges the bytes of a pre-token as Hugging Face's tokenizers does with dropout: the merge of the
// lowest priority is next, the leftmost of several. By chance it is passed over, and may be taken again after
// any other merge.
//
// Cost: n log n in the bytes of the pre-token, times how often merges are passed over. Thread-safe once
// built.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "encode/draws.h"
#include "memory/number_table.h"

namespace tokcore {

class DropoutBpe {
 public:
  // Memory that encoding reuses. One per thread.
  struct Scratch {
    struct Candidate {
      uint32_t priority;
      uint32_t place;
      int32_t result;
    };
    std::vector<int32_t> symbols;
    std::vector<uint32_t> next, previous;
    std::vector<Candidate> queue, passed_over;
  };

  // byte_ids: 256. Merges are of ids, which are not negative.
  void build(const int32_t* byte_ids, const int32_t* left, const int32_t* right, const int32_t* result,
             const uint32_t* priority, size_t num_merges);

  // Appends the ids of a pre-token. size < 2^32 - 1.
  void encode(const uint8_t* text, size_t size, const Chance& dropout, Draws& draws, Scratch& scratch,
              std::vector<int32_t>* ids) const;

 private:
  static uint64_t key(int32_t left, int32_t right) {
    return uint64_t{static_cast<uint32_t>(left)} << 32 | static_cast<uint32_t>(right);
  }

  int32_t byte_ids_[256] = {};
  NumberTable pairs_;  // of ids -> their merge
  std::vector<int32_t> results_;
  std::vector<uint32_t> priorities_;
};

}  // namespace tokcore
