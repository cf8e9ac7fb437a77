#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/vector.h>

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "arrays.h"
#include "bindings.h"
#include "encoding.h"
#include "text/bert_normalizer.h"
#include "text/composition.h"

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

std::vector<int64_t> list_unlike_nfc(InputArray<uint8_t> data, InputArray<int64_t> offsets) {
  check_ascending("offsets", offsets, data.shape(0));
  const nb::gil_scoped_release released;
  const NfcCheck& check = NfcCheck::get();
  std::vector<int64_t> found;
  for (size_t i = 0; i + 1 < offsets.shape(0); ++i) {
    const int64_t begin = offsets.data()[i];
    const auto size = static_cast<size_t>(offsets.data()[i + 1] - begin);
    if (!check.holds({data.data() + begin, size, Encoding::kUtf8})) found.push_back(static_cast<int64_t>(i));
  }
  return found;
}

std::vector<int64_t> list_strings_unlike_nfc(const nb::tuple& texts) {
  std::vector<StringView> strings;
  std::vector<nb::object> kept;
  for (size_t i = 0; i < texts.size(); ++i) strings.push_back(view_text(texts, i, &kept));
  const nb::gil_scoped_release released;
  const NfcCheck& check = NfcCheck::get();
  std::vector<int64_t> found;
  for (size_t i = 0; i < strings.size(); ++i) {
    if (!check.holds(strings[i])) found.push_back(static_cast<int64_t>(i));
  }
  return found;
}

}  // namespace

void bind_normalizer(nb::module_& module) {
  module.def("normalize_bert", &normalize_texts, nb::arg("data"), nb::arg("offsets"), nb::arg("cased"),
             "(bytes, offsets) of the texts as BERT's normalizer leaves them.");
  module.def("list_unlike_nfc", &list_unlike_nfc, nb::arg("data"), nb::arg("offsets"),
             "The numbers of texts that are not in NFC, or are not UTF-8.");
  module.def("list_strings_unlike_nfc", &list_strings_unlike_nfc, nb::arg("texts"),
             "The same of a tuple of str and bytes.");
}

}  // namespace tokcore
