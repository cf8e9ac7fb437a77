// DESCRIPTION
// IdReplacer puts a list of ids in the place of each id: what a token becomes where a vocabulary has fewer
// merges. Linear in what goes in and comes out. Immutable once made; any number of threads may use one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "encode/id_buffer.h"

namespace tokcore {

struct IdDocuments {
  IdBuffer ids;
  std::vector<int64_t> offsets;  // one more than there are documents
};

class IdReplacer {
 public:
  static constexpr size_t kNone = std::numeric_limits<size_t>::max();

  // ids[offsets[i]] to ids[offsets[i + 1]] stand for id i; an empty list means that there is no such id.
  IdReplacer(const int32_t* ids, const int64_t* offsets, size_t num_ids);

  // Replaces the ids of documents. Returns the place of the first id that there is not, kNone if there are
  // all.
  size_t replace(const int32_t* ids, const int64_t* offsets, size_t num_documents,
                 IdDocuments* replaced) const;

 private:
  static constexpr size_t kInside = 3;

  // Of a longer list, the first of its ids is where it begins in ids_.
  struct List {
    int32_t ids[kInside];
    uint32_t length;
  };

  std::vector<List> lists_;  // by id
  std::vector<int32_t> ids_;
};

}  // namespace tokcore
