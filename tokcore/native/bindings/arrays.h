// DESCRIPTION
// Buffers between numpy and the kernel: they come in as checked views and go out as arrays that own their
// memory.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <type_traits>
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

// The same for values that stay the caller's: a copy, in an array of numpy's own making. For a few kilobytes
// that takes a quarter of the time.
template <typename T>
nanobind::object copy_to_numpy(const T* values, size_t num) {
  static_assert(std::is_same_v<T, int32_t> || std::is_same_v<T, int64_t>);
  // Never given back: they are used for as long as there is an interpreter.
  static PyObject* const empty =
      nanobind::object(nanobind::module_::import_("numpy").attr("empty")).release().ptr();
  static PyObject* const dtype = nanobind::module_::import_("numpy")
                                     .attr("dtype")(std::is_same_v<T, int32_t> ? "int32" : "int64")
                                     .release()
                                     .ptr();
  const nanobind::object size = nanobind::steal(PyLong_FromSize_t(num));
  PyObject* const arguments[] = {size.ptr(), dtype};
  nanobind::object array = nanobind::steal(PyObject_Vectorcall(empty, arguments, 2, nullptr));
  Py_buffer buffer;
  if (!array.is_valid() || PyObject_GetBuffer(array.ptr(), &buffer, PyBUF_WRITABLE) != 0)
    throw nanobind::python_error();
  if (num != 0) std::memcpy(buffer.buf, values, num * sizeof(T));
  PyBuffer_Release(&buffer);
  return array;
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
