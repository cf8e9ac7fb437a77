#include "text/string_finder.h"

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/tuple.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <new>
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

void make_string_finder(StringFinder* self, InputArray<uint8_t> data, InputArray<int64_t> offsets) {
  check_ascending("offsets", offsets, data.shape(0));
  if (data.shape(0) > std::numeric_limits<int32_t>::max())
    throw std::invalid_argument("strings of 2^31 bytes or more");
  const size_t num_strings = offsets.shape(0) - 1;
  new (self) StringFinder();
  const size_t refused = self->build(data.data(), offsets.data(), num_strings);
  if (refused == num_strings) return;
  self->~StringFinder();
  throw std::invalid_argument("string " + std::to_string(refused) + ": is empty, or an earlier one is equal");
}

std::tuple<OutputArray<int64_t>, OutputArray<int64_t>, OutputArray<int64_t>, OutputArray<int64_t>>
find_strings(const StringFinder& self, InputArray<uint8_t> data, InputArray<int64_t> offsets) {
  check_ascending("offsets", offsets, data.shape(0));
  std::vector<int64_t> starts, ends, strings, texts;
  {
    const nb::gil_scoped_release released;
    std::vector<FoundString> found;
    for (size_t i = 0; i + 1 < offsets.shape(0); ++i) {
      const int64_t begin = offsets.data()[i];
      found.clear();
      self.find(data.data() + begin, static_cast<size_t>(offsets.data()[i + 1] - begin), &found);
      for (const FoundString& one : found) {
        starts.push_back(begin + static_cast<int64_t>(one.start));
        ends.push_back(begin + static_cast<int64_t>(one.end));
        strings.push_back(one.string);
        texts.push_back(static_cast<int64_t>(i));
      }
    }
  }
  return {to_numpy(std::move(starts)), to_numpy(std::move(ends)), to_numpy(std::move(strings)),
          to_numpy(std::move(texts))};
}

}  // namespace

void bind_string_finder(nb::module_& module) {
  nb::class_<StringFinder>(module, "StringFinder")
      .def("__init__", &make_string_finder, nb::arg("data"), nb::arg("offsets"))
      .def("find", &find_strings, nb::arg("data"), nb::arg("offsets"),
           "(starts, ends, numbers of strings, numbers of texts)");
}

}  // namespace tokcore
