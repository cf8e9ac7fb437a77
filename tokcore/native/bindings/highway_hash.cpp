#include "digest/highway_hash.h"

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "arrays.h"
#include "bindings.h"

namespace nb = nanobind;

namespace tokcore {
namespace {

OutputArray<uint64_t> hash_ranges(InputArray<uint64_t> key, InputArray<uint8_t> data,
                                  InputArray<int64_t> offsets) {
  check_size("key", key, HighwayKey{}.size());
  check_ascending("offsets", offsets, data.shape(0));
  std::vector<uint64_t> hashes(offsets.shape(0) - 1);
  {
    const nb::gil_scoped_release released;
    const HighwayKey own = {key.data()[0], key.data()[1], key.data()[2], key.data()[3]};
    for (size_t i = 0; i < hashes.size(); ++i) {
      const int64_t start = offsets.data()[i];
      hashes[i] = highway_hash(own, data.data() + start, static_cast<size_t>(offsets.data()[i + 1] - start));
    }
  }
  return to_numpy(std::move(hashes));
}

}  // namespace

void bind_highway_hash(nb::module_& module) {
  module.def("highway_hash", &hash_ranges, nb::arg("key"), nb::arg("data"), nb::arg("offsets"),
             "HighwayHash64 of each range of bytes.");
}

}  // namespace tokcore
