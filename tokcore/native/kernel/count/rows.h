// DESCRIPTION
// Rows of a count table as they enter and leave the kernel: key i is data[offsets[i] .. offsets[i + 1]) and
// occurs counts[i] times, in documents[i] documents. RowView points to the caller's arrays, Rows owns its
// arrays.
#pragma once

#include <cstddef>
#include <cstdint>

#include "memory/buffer.h"

namespace tokcore {

struct RowView {
  const uint8_t* data;
  const int64_t* offsets;  // size + 1
  const uint64_t* counts;
  const uint64_t* documents;
  size_t size;
};

struct Rows {
  Buffer<uint8_t> data;
  Buffer<int64_t> offsets{0};
  Buffer<uint64_t> counts;
  Buffer<uint64_t> documents;

  size_t size() const { return counts.size(); }
};

}  // namespace tokcore
