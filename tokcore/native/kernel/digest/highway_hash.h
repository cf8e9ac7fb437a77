// DESCRIPTION
// HighwayHash64, the keyed hash of 64 bits that Riegeli's files carry of every header and of all data:
// J. Alakuijala, B. Cox, J. Wassenberg, "Fast keyed hash/pseudo-random function using SIMD multiply and
// permute". Any bytes, also none. About 1 ns for 2 bytes. Equal results on every processor. Thread-safe.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace tokcore {

using HighwayKey = std::array<uint64_t, 4>;

uint64_t highway_hash(const HighwayKey& key, const uint8_t* data, size_t num_bytes);

}  // namespace tokcore
