#include "text/mask_finder.h"

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/tuple.h>

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "arrays.h"
#include "bindings.h"

namespace nb = nanobind;

namespace tokcore {
namespace {

std::tuple<OutputArray<int64_t>, OutputArray<int64_t>, OutputArray<uint8_t>, OutputArray<int64_t>>
find_masked(uint32_t presets, InputArray<uint8_t> data, InputArray<int64_t> offsets) {
  check_ascending("offsets", offsets, data.shape(0));
  if (presets >> kNumMaskPresets != 0) throw std::invalid_argument("presets = " + std::to_string(presets));
  std::vector<int64_t> starts, ends, firsts{0};
  std::vector<uint8_t> numbers;
  {
    const nb::gil_scoped_release released;
    const MaskFinder finder(presets);
    std::vector<MaskedSpan> spans;
    for (size_t i = 0; i + 1 < offsets.shape(0); ++i) {
      const int64_t begin = offsets.data()[i];
      spans.clear();
      finder.find(data.data() + begin, static_cast<size_t>(offsets.data()[i + 1] - begin), &spans);
      for (const MaskedSpan& span : spans) {
        starts.push_back(begin + static_cast<int64_t>(span.start));
        ends.push_back(begin + static_cast<int64_t>(span.end));
        numbers.push_back(static_cast<uint8_t>(span.preset));
      }
      firsts.push_back(static_cast<int64_t>(starts.size()));
    }
  }
  return {to_numpy(std::move(starts)), to_numpy(std::move(ends)), to_numpy(std::move(numbers)),
          to_numpy(std::move(firsts))};
}

}  // namespace

void bind_mask_finder(nb::module_& module) {
  module.def("find_masked", &find_masked, nb::arg("presets"), nb::arg("data"), nb::arg("offsets"),
             "(starts, ends, numbers of presets, index of each text's first span)");
}

}  // namespace tokcore
