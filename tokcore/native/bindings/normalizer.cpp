#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <utility>
#include <vector>

#include "arrays.h"
#include "bindings.h"
#include "text/bert_normalizer.h"

namespace nb = nanobind;

namespace tokcore {
namespace {

nb::tuple normalize_texts(InputArray<uint8_t> data, InputArray<int64_t> offsets, bool cased) {
  check_ascending("offsets", offsets, data.shape(0));
  BertNormalizer normalizer(cased);
  std::vector<uint8_t> normalized;
  std::vector<int64_t> ends(offsets.shape(0), 0);
  {
    const nb::gil_scoped_release released;
    for (size_t i = 0; i + 1 < ends.size(); ++i) {
      const int64_t begin = offsets.data()[i], end = offsets.data()[i + 1];
      normalizer.add(data.data() + begin, static_cast<size_t>(end - begin));
      ends[i + 1] = static_cast<int64_t>(normalizer.size());
    }
    normalized = normalizer.take();
  }
  return nb::make_tuple(to_numpy(std::move(normalized)), to_numpy(std::move(ends)));
}

}  // namespace

void bind_normalizer(nb::module_& module) {
  module.def("normalize_bert", &normalize_texts, nb::arg("data"), nb::arg("offsets"), nb::arg("cased"),
             "(bytes, offsets) of the texts as BERT's normalizer leaves them.");
}

}  // namespace tokcore
