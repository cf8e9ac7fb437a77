// DESCRIPTION
// Buffers between numpy and the kernel: they come in as checked views and go out as arrays that own their
// memory.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace tokcore {

template <typename T>
using InputArray = nanobind::ndarray<const T, nanobind::ndim<1>, nanobind::c_contig, nanobind::device::cpu>;

// An array of the caller's that the kernel writes to.
template <typename T>
using InOutArray = nanobind::ndarray<T, nanobind::ndim<1>, nanobind::c_contig, nanobind::device::cpu>;

template <typename T>
using OutputArray = nanobind::ndarray<nanobind::numpy, T, nanobind::ndim<1>>;

template <typename T, typename Allocator>
OutputArray<T> to_numpy(std::vector<T, Allocator>&& values) {
  using Vector = std::vector<T, Allocator>;
  auto* owned = new Vector(std::move(values));
  nanobind::capsule owner(owned, [](void* pointer) noexcept { delete static_cast<Vector*>(pointer); });
  return OutputArray<T>(owned->data(), {owned->size()}, owner);
}

// Throws std::invalid_argument unless there is an offset and offsets ascend within [0, limit].
inline void check_ascending(const char* name, const InputArray<int64_t>& offsets, size_t limit) {
  if (offsets.shape(0) == 0)
    throw std::invalid_argument(std::string(name) + ": expected at least one, found none");
  int64_t previous = 0;
  for (size_t i = 0; i < offsets.shape(0); ++i) {
    const int64_t offset = offsets.data()[i];
    if (offset < previous || static_cast<uint64_t>(offset) > limit) {
      throw std::invalid_argument(std::string(name) + "[" + std::to_string(i) +
                                  "] = " + std::to_string(offset) + ": expected ascending positions up to " +
                                  std::to_string(limit));
    }
    previous = offset;
  }
}

// Throws std::invalid_argument unless an array has one value per row.
template <typename T>
void check_size(const char* name, const InputArray<T>& values, size_t num_rows) {
  if (values.shape(0) != num_rows) {
    throw std::invalid_argument(std::string(name) + ": expected " + std::to_string(num_rows) +
                                " values, found " + std::to_string(values.shape(0)));
  }
}

}  // namespace tokcore
