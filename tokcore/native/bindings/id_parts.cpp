#include "shards/id_parts.h"

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/vector.h>

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "arrays.h"
#include "bindings.h"

namespace nb = nanobind;

namespace tokcore {
namespace {

using Source = nb::ndarray<nb::ro, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

// Keeps the arrays that its parts are in.
class SharedIdParts {
 public:
  SharedIdParts(std::vector<Source> sources, InputArray<int64_t> which, InputArray<int64_t> starts,
                InputArray<int64_t> ends)
      : arrays_(std::move(sources)) {
    for (const Source& array : arrays_) sources_.push_back(read_source(array));
    check_size("starts", starts, which.shape(0));
    check_size("ends", ends, which.shape(0));
    bounds_.push_back(0);
    for (size_t i = 0; i < which.shape(0); ++i) add(i, which.data()[i], starts.data()[i], ends.data()[i]);
  }

  void copy(size_t first, size_t last, InOutArray<int32_t> ids) const {
    if (first > last || last > parts_.size())
      throw std::invalid_argument("parts " + std::to_string(first) + " to " + std::to_string(last) + " of " +
                                  std::to_string(parts_.size()));
    const size_t expected = bounds_[last] - bounds_[first];
    if (ids.shape(0) != expected)
      throw std::invalid_argument("ids: expected room for " + std::to_string(expected) + ", found " +
                                  std::to_string(ids.shape(0)));
    const nb::gil_scoped_release released;
    copy_parts(sources_.data(), parts_.data() + first, last - first, ids.data());
  }

 private:
  static IdSource read_source(const Source& array) {
    const nb::dlpack::dtype dtype = array.dtype();
    const bool is_integer = dtype.code == static_cast<uint8_t>(nb::dlpack::dtype_code::UInt) ||
                            dtype.code == static_cast<uint8_t>(nb::dlpack::dtype_code::Int);
    const bool is_wide = dtype.bits == 32;
    const bool is_narrow =
        dtype.bits == 16 && dtype.code == static_cast<uint8_t>(nb::dlpack::dtype_code::UInt);
    if (!is_integer || dtype.lanes != 1 || !(is_wide || is_narrow))
      throw std::invalid_argument("sources: expected arrays of uint16, uint32 or int32");
    return {static_cast<const uint8_t*>(array.data()), dtype.bits / size_t{8}};
  }

  void add(size_t i, int64_t source, int64_t start, int64_t end) {
    if (source < 0 || static_cast<uint64_t>(source) >= arrays_.size())
      throw std::invalid_argument("which[" + std::to_string(i) + "] = " + std::to_string(source) +
                                  ": there are " + std::to_string(arrays_.size()) + " sources");
    const size_t limit = arrays_[static_cast<size_t>(source)].shape(0);
    if (start < 0 || end < start || static_cast<uint64_t>(end) > limit)
      throw std::invalid_argument("part " + std::to_string(i) + " is from " + std::to_string(start) + " to " +
                                  std::to_string(end) + ": its source has " + std::to_string(limit) + " ids");
    parts_.push_back({static_cast<uint32_t>(source), start, end});
    bounds_.push_back(bounds_.back() + static_cast<size_t>(end - start));
  }

  std::vector<Source> arrays_;
  std::vector<IdSource> sources_;
  std::vector<IdPart> parts_;
  std::vector<size_t> bounds_;  // of ids, if all parts were back to back
};

}  // namespace

void bind_id_parts(nb::module_& module) {
  nb::class_<SharedIdParts>(module, "IdParts")
      .def(nb::init<std::vector<Source>, InputArray<int64_t>, InputArray<int64_t>, InputArray<int64_t>>(),
           nb::arg("sources"), nb::arg("which"), nb::arg("starts"), nb::arg("ends"))
      .def("copy", &SharedIdParts::copy, nb::arg("first"), nb::arg("last"), nb::arg("ids"));
}

}  // namespace tokcore
