// DESCRIPTION
// Parts of mapped files of ids, copied back to back as int32: what a loader's batches are made of. The next
// part is on its way from memory while one is copied. Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tokcore {

// The ids of a file, at any address.
struct IdSource {
  const uint8_t* data;
  size_t width;  // bytes of an id, little-endian: 2 or 4
};

// ids number start to end of a source, end excluded.
struct IdPart {
  uint32_t source;
  int64_t start, end;
};

void copy_parts(const IdSource* sources, const IdPart* parts, size_t num_parts, int32_t* ids);

}  // namespace tokcore
