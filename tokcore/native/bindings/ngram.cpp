#include "predict/ngram.h"

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/tuple.h>

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>

#include "arrays.h"
#include "bindings.h"

namespace nb = nanobind;

namespace tokcore {
namespace {

std::tuple<OutputArray<double>, OutputArray<uint64_t>> predict_by_ngrams(
    InputArray<int32_t> ids, InputArray<int64_t> offsets, size_t num_learned, InputArray<int32_t> lengths,
    size_t order, uint64_t context_bytes) {
  check_ascending("offsets", offsets, ids.shape(0));
  const size_t num_documents = offsets.shape(0) - 1;
  if (num_learned > num_documents) {
    throw std::invalid_argument("num_learned = " + std::to_string(num_learned) + ": there are " +
                                std::to_string(num_documents) + " documents");
  }
  if (order == 0 || order > kMaxNgramOrder) {
    throw std::invalid_argument("order = " + std::to_string(order) + ": expected 1 to " +
                                std::to_string(kMaxNgramOrder));
  }
  if (ids.shape(0) + num_documents >= size_t{1} << 31)
    throw std::invalid_argument("ids: with the documents they are 2**31 or more");
  NgramPrediction prediction;
  {
    const nb::gil_scoped_release released;
    for (int64_t at = offsets.data()[0]; at < offsets.data()[num_documents]; ++at) {
      if (static_cast<uint32_t>(ids.data()[at]) >= lengths.shape(0)) {
        throw std::invalid_argument("ids[" + std::to_string(at) + "] = " + std::to_string(ids.data()[at]) +
                                    ": expected 0 to " + std::to_string(lengths.shape(0)) + ", excluded");
      }
    }
    for (size_t id = 0; id < lengths.shape(0); ++id) {
      if (lengths.data()[id] < 0)
        throw std::invalid_argument("lengths[" + std::to_string(id) + "] is negative");
    }
    prediction = predict_documents({ids.data(), offsets.data(), num_documents, num_learned},
                                   {lengths.shape(0), lengths.data(), order, context_bytes});
  }
  return {to_numpy(std::move(prediction.bits)), to_numpy(std::move(prediction.context_bytes))};
}

}  // namespace

void bind_ngram(nb::module_& module) {
  module.def("predict_by_ngrams", &predict_by_ngrams, nb::arg("ids"), nb::arg("offsets"),
             nb::arg("num_learned"), nb::arg("lengths"), nb::arg("order"), nb::arg("context_bytes"),
             "(bits, bytes of contexts) of each document after the first num_learned.");
}

}  // namespace tokcore
