#include "shards/id_replacer.h"

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/tuple.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>

#include "arrays.h"
#include "bindings.h"
#include "encoding.h"

namespace nb = nanobind;

namespace tokcore {
namespace {

IdReplacer make_replacer(InputArray<int32_t> ids, InputArray<int64_t> offsets) {
  check_ascending("offsets", offsets, ids.shape(0));
  if (ids.shape(0) > static_cast<size_t>(std::numeric_limits<int32_t>::max()))
    throw std::invalid_argument("ids: expected fewer than 2**31");
  return IdReplacer(ids.data(), offsets.data(), offsets.shape(0) - 1);
}

std::tuple<nb::object, OutputArray<int64_t>> replace_ids(const IdReplacer& replacer, InputArray<int32_t> ids,
                                                         InputArray<int64_t> offsets) {
  check_ascending("offsets", offsets, ids.shape(0));
  IdDocuments replaced;
  {
    const nb::gil_scoped_release released;
    const size_t unknown = replacer.replace(ids.data(), offsets.data(), offsets.shape(0) - 1, &replaced);
    if (unknown != IdReplacer::kNone) {
      throw std::invalid_argument("ids[" + std::to_string(unknown) +
                                  "] = " + std::to_string(ids.data()[unknown]) + ": there is no such id");
    }
    replaced.ids.shrink();
  }
  return {to_python(std::move(replaced.ids)), to_numpy(std::move(replaced.offsets))};
}

}  // namespace

void bind_id_replacer(nb::module_& module) {
  nb::class_<IdReplacer>(module, "IdReplacer")
      .def(nb::new_(&make_replacer), nb::arg("ids"), nb::arg("offsets"))
      .def("replace", &replace_ids, nb::arg("ids"), nb::arg("offsets"), "(ids, offsets) of the documents.");
}

}  // namespace tokcore
