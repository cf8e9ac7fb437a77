#include "shards/varints.h"

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstdint>
#include <stdexcept>
#include <utility>

#include "arrays.h"
#include "bindings.h"

namespace nb = nanobind;

namespace tokcore {
namespace {

void check(VarintError error) {
  switch (error) {
    case VarintError::kNone:
      return;
    case VarintError::kNegative:
      throw std::invalid_argument("a negative integer");
    case VarintError::kCutOff:
      throw std::invalid_argument("a part ends within an integer");
    case VarintError::kTooLong:
      throw std::invalid_argument("an integer of more than 9 bytes");
  }
}

nb::tuple pack(InputArray<int32_t> values, InputArray<int64_t> offsets) {
  check_ascending("offsets", offsets, values.shape(0));
  Buffer<uint8_t> data;
  Buffer<int64_t> bounds;
  VarintError error;
  {
    const nb::gil_scoped_release released;
    error = pack_varints(values.data(), offsets.data(), offsets.shape(0) - 1, &data, &bounds);
  }
  check(error);
  return nb::make_tuple(to_numpy(std::move(data)), to_numpy(std::move(bounds)));
}

nb::tuple unpack(InputArray<uint8_t> data, InputArray<int64_t> bounds) {
  check_ascending("bounds", bounds, data.shape(0));
  Buffer<int64_t> values, counts;
  VarintError error;
  {
    const nb::gil_scoped_release released;
    error = unpack_varints(data.data(), bounds.data(), bounds.shape(0) - 1, &values, &counts);
  }
  check(error);
  return nb::make_tuple(to_numpy(std::move(values)), to_numpy(std::move(counts)));
}

}  // namespace

void bind_varints(nb::module_& module) {
  module.def("pack_varints", &pack, nb::arg("values"), nb::arg("offsets"), "(data, bounds)");
  module.def("unpack_varints", &unpack, nb::arg("data"), nb::arg("bounds"), "(values, counts)");
}

}  // namespace tokcore
