#include "text/json_lines.h"

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "arrays.h"
#include "bindings.h"

namespace nb = nanobind;

namespace tokcore {
namespace {

void make_json_lines(JsonLines* self, std::string text, std::string id, std::string lang,
                     std::vector<std::string> forbidden, size_t max_text_bytes, size_t max_id_bytes,
                     std::vector<std::string> values) {
  if (values.size() > JsonLines::kMostValues) throw std::invalid_argument("too many values of a line");
  new (self) JsonLines({std::move(text), std::move(id), std::move(lang), std::move(forbidden), max_text_bytes,
                        max_id_bytes, std::move(values)});
}

nb::tuple read(JsonLines& self, InputArray<uint8_t> data, size_t start, size_t end, size_t max_bytes,
               size_t max_documents) {
  if (start > end || end > data.shape(0)) {
    throw std::invalid_argument("bytes " + std::to_string(start) + " to " + std::to_string(end) + " of " +
                                std::to_string(data.shape(0)) + ": not a range of them");
  }
  JsonDocuments documents;
  JsonLinesResult result;
  {
    const nb::gil_scoped_release released;
    result = self.read(data.data(), start, end, max_bytes, max_documents, &documents);
  }
  return nb::make_tuple(result.position, result.refused, result.line_end,
                        to_numpy(std::move(documents.texts)), to_numpy(std::move(documents.text_offsets)),
                        to_numpy(std::move(documents.ids)), to_numpy(std::move(documents.id_offsets)),
                        to_numpy(std::move(documents.langs)), to_numpy(std::move(documents.values)));
}

}  // namespace

void bind_json_lines(nb::module_& module) {
  nb::class_<JsonLines>(module, "JsonLines")
      .def("__init__", &make_json_lines, nb::arg("text"), nb::arg("id"), nb::arg("lang"),
           nb::arg("forbidden"), nb::arg("max_text_bytes"), nb::arg("max_id_bytes"), nb::arg("values"))
      .def("know_lang", &JsonLines::know_lang, nb::arg("lang"))
      .def("read", &read, nb::arg("data"), nb::arg("start"), nb::arg("end"), nb::arg("max_bytes"),
           nb::arg("max_documents"),
           "(position, refused, line_end, texts, text_offsets, ids, id_offsets, langs, values)");
}

}  // namespace tokcore
