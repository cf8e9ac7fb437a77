#include "count/id_counter.h"

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/tuple.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <mutex>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>

#include "arrays.h"
#include "bindings.h"

namespace nb = nanobind;

namespace tokcore {
namespace {

class SharedIdCounter {
 public:
  void add(InputArray<int32_t> ids, InputArray<int64_t> offsets) {
    check_ascending("offsets", offsets, ids.shape(0));
    const size_t num_documents = offsets.shape(0) - 1;
    const nb::gil_scoped_release released;
    const int32_t* const first = ids.data() + offsets.data()[0];
    const int32_t* const last = ids.data() + offsets.data()[num_documents];
    int32_t least = 0;  // in a form that compiles to vector instructions
    for (const int32_t* id = first; id != last; ++id) least = std::min(least, *id);
    if (least < 0) throw std::invalid_argument("ids: " + std::to_string(least) + " is negative");
    for (size_t i = 0; i < num_documents; ++i) {
      if (offsets.data()[i + 1] - offsets.data()[i] > std::numeric_limits<int32_t>::max()) {
        throw std::overflow_error("document " + std::to_string(i) + " has 2**31 ids or more");
      }
    }
    const std::lock_guard guard(mutex_);
    counter_.add(ids.data(), offsets.data(), num_documents);
  }

  std::tuple<OutputArray<int32_t>, OutputArray<uint64_t>, OutputArray<uint64_t>, OutputArray<uint64_t>>
  take() {
    IdRows rows;
    {
      const nb::gil_scoped_release released;
      const std::lock_guard guard(mutex_);
      rows = counter_.take();
    }
    return {to_numpy(std::move(rows.ids)), to_numpy(std::move(rows.counts)),
            to_numpy(std::move(rows.documents)), to_numpy(std::move(rows.max_in_document))};
  }

 private:
  IdCounter counter_;
  std::mutex mutex_;
};

}  // namespace

void bind_id_counter(nb::module_& module) {
  nb::class_<SharedIdCounter>(module, "IdCounter")
      .def(nb::init<>())
      .def("add", &SharedIdCounter::add, nb::arg("ids"), nb::arg("offsets"))
      .def("take", &SharedIdCounter::take,
           "(ids, counts, documents, max_in_document), by id; empties the counter.");
}

}  // namespace tokcore
