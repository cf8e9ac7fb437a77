#include "encode/rank_merges.h"

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/tuple.h>

#include <cstdint>
#include <tuple>
#include <utility>

#include "arrays.h"
#include "bindings.h"

namespace nb = nanobind;

namespace tokcore {
namespace {

using Arrays = std::tuple<OutputArray<int32_t>, OutputArray<int32_t>, OutputArray<int32_t>>;

template <RankMerges (*kFunction)(const RankedTokens&)>
Arrays of_tokens(InputArray<uint8_t> data, InputArray<int64_t> offsets) {
  check_ascending("offsets", offsets, data.shape(0));
  RankMerges merges;
  {
    nb::gil_scoped_release released;
    merges = kFunction({data.data(), offsets.data(), offsets.shape(0) - 1});
  }
  return {to_numpy(std::move(merges.left)), to_numpy(std::move(merges.right)),
          to_numpy(std::move(merges.result))};
}

}  // namespace

void bind_rank_merges(nb::module_& module) {
  module.def("rank_merges", &of_tokens<&rank_merges>, nb::arg("data"), nb::arg("offsets"),
             "(left, right, result) of every way to make a token of two.");
  module.def("rank_parts", &of_tokens<&rank_parts>, nb::arg("data"), nb::arg("offsets"),
             "(left, right, result) of every longer token, -1 for parts where there are not two.");
}

}  // namespace tokcore
