#include "scan/scanner.h"

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include <iterator>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bindings.h"
#include "scan/character.h"

namespace nb = nanobind;

namespace tokcore {
namespace {

using ByteArray = nb::ndarray<const uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using OffsetArray = nb::ndarray<const int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

template <typename T>
using NumpyArray = nb::ndarray<nb::numpy, T, nb::ndim<1>>;

template <typename T>
NumpyArray<T> to_numpy(std::vector<T>&& values) {
  auto* owned = new std::vector<T>(std::move(values));
  nb::capsule owner(owned, [](void* pointer) noexcept { delete static_cast<std::vector<T>*>(pointer); });
  return NumpyArray<T>(owned->data(), {owned->size()}, owner);
}

void check_offsets(const OffsetArray& offsets, size_t data_size) {
  if (offsets.shape(0) == 0) throw std::invalid_argument("offsets: expected at least one, found none");
  int64_t previous = 0;
  for (size_t i = 0; i < offsets.shape(0); ++i) {
    const int64_t offset = offsets.data()[i];
    if (offset < previous || static_cast<uint64_t>(offset) > data_size) {
      throw std::invalid_argument("offsets[" + std::to_string(i) + "] = " + std::to_string(offset) +
                                  ": expected ascending positions in " + std::to_string(data_size) +
                                  " bytes");
    }
    previous = offset;
  }
}

std::pair<NumpyArray<int64_t>, NumpyArray<int64_t>> split(std::string_view pattern_name, ByteArray data,
                                                          OffsetArray offsets,
                                                          std::string_view implementation_name) {
  const Scanner scanner = scanner_from_names(pattern_name, implementation_name);
  check_offsets(offsets, data.shape(0));
  const uint8_t* bytes = data.data();
  const int64_t* bounds = offsets.data();
  const size_t num_texts = offsets.shape(0) - 1;
  std::vector<int64_t> ends;
  std::vector<int64_t> firsts;
  {
    nb::gil_scoped_release released;
    firsts.reserve(num_texts + 1);
    firsts.push_back(0);
    uint64_t found[1024];
    for (size_t i = 0; i < num_texts; ++i) {
      const size_t size = static_cast<size_t>(bounds[i + 1] - bounds[i]);
      for (size_t begin = 0; begin < size;) {
        const size_t count = scanner.scan(bytes + bounds[i], size, begin, found, std::size(found));
        for (size_t k = 0; k < count; ++k) ends.push_back(bounds[i] + static_cast<int64_t>(found[k]));
        begin = found[count - 1];
      }
      firsts.push_back(static_cast<int64_t>(ends.size()));
    }
  }
  return {to_numpy(std::move(ends)), to_numpy(std::move(firsts))};
}

std::vector<std::string> implementation_names() {
  std::vector<std::string> names;
  for (const Implementation implementation : implementations()) names.emplace_back(name_of(implementation));
  return names;
}

// For tests: split a text by repeated calls of scan() with room for `capacity` ends each.
NumpyArray<int64_t> split_in_steps(std::string_view pattern_name, nb::bytes text,
                                   std::string_view implementation_name, size_t capacity) {
  const Scanner scanner = scanner_from_names(pattern_name, implementation_name);
  if (capacity == 0) throw std::invalid_argument("capacity: expected at least 1, found 0");
  std::vector<uint64_t> found(capacity);
  std::vector<int64_t> ends;
  for (size_t begin = 0; begin < text.size();) {
    const size_t count =
        scanner.scan(static_cast<const uint8_t*>(text.data()), text.size(), begin, found.data(), capacity);
    ends.insert(ends.end(), found.begin(), found.begin() + static_cast<std::ptrdiff_t>(count));
    begin = found[count - 1];
  }
  return to_numpy(std::move(ends));
}

// For tests: the classes of every code point, as bits of unicode::ClassBit.
NumpyArray<uint8_t> character_classes() {
  std::vector<uint8_t> classes(unicode::kMaxCodePoint + 1);
  for (uint32_t c = 0; c < classes.size(); ++c) classes[c] = unicode::class_of(c);
  return to_numpy(std::move(classes));
}

}  // namespace

Implementation checked_implementation(std::string_view name) {
  std::string can_run;
  for (const Implementation implementation : implementations()) {
    if (name_of(implementation) == name) return implementation;
    can_run += (can_run.empty() ? "" : ", ") + std::string(name_of(implementation));
  }
  throw std::invalid_argument("implementation \"" + std::string(name) + "\": this processor can run " +
                              can_run);
}

Scanner scanner_from_names(std::string_view pattern_name, std::string_view implementation_name) {
  const auto pattern = pattern_from_name(pattern_name);
  if (!pattern) {
    throw std::invalid_argument(
        "pattern \"" + std::string(pattern_name) +
        "\": expected gpt2, cl100k, cl100k-2023, o200k, llama3, qwen2, nanochat, tekken, bert or metaspace");
  }
  return Scanner(*pattern, checked_implementation(implementation_name));
}

void bind_scanner(nb::module_& module) {
  module.attr("UNICODE_VERSION") = nb::str(unicode::kVersion);
  module.attr("UNICODE_TABLES_SHA256") = nb::str(unicode::kTablesSha256);
  module.def("implementations", &implementation_names,
             "Names of the implementations that this processor can run, fastest first.");
  module.def("split", &split, nb::arg("pattern"), nb::arg("data"), nb::arg("offsets"),
             nb::arg("implementation"),
             "Ends of all pre-tokens (absolute in data), and per text the index of its first one (n + 1).");
  module.def("split_in_steps", &split_in_steps, nb::arg("pattern"), nb::arg("text"),
             nb::arg("implementation"), nb::arg("capacity"),
             "Ends of the pre-tokens of one text, asked for `capacity` at a time.");
  module.def("character_classes", &character_classes, "Class bits of every code point, for tests.");
}

}  // namespace tokcore
