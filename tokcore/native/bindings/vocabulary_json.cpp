#include "text/vocabulary_json.h"

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "arrays.h"
#include "bindings.h"

namespace nb = nanobind;

namespace tokcore {
namespace {

JsonPlace place_in(const nb::bytes& data, size_t begin) { return {data.c_str(), data.size(), begin}; }

nb::object tuple_of(const TokenList& tokens) {
  const size_t num = tokens.offsets.size() - 1;
  nb::object out = nb::steal(PyTuple_New(static_cast<Py_ssize_t>(num)));
  if (!out.is_valid()) throw nb::python_error();
  for (size_t i = 0; i < num; ++i) {
    PyObject* token = PyBytes_FromStringAndSize(tokens.data.data() + tokens.offsets[i],
                                                static_cast<Py_ssize_t>(tokens.token_size(i)));
    if (token == nullptr) throw nb::python_error();
    PyTuple_SET_ITEM(out.ptr(), static_cast<Py_ssize_t>(i), token);
  }
  return out;
}

nb::object named_bpe(const nb::bytes& data, size_t vocabulary_at, size_t merges_at,
                     const std::vector<std::string>& left_out) {
  std::optional<NamedBpe> read;
  {
    const nb::gil_scoped_release released;
    read = read_named_bpe(place_in(data, vocabulary_at), place_in(data, merges_at), left_out);
  }
  if (!read) return nb::none();
  return nb::make_tuple(tuple_of(read->tokens), to_numpy(std::move(read->tokens.ids)),
                        to_numpy(std::move(read->merges)));
}

nb::object id_pairs(const nb::bytes& data, size_t begin) {
  size_t end = 0;
  std::optional<std::vector<int32_t>> read;
  {
    const nb::gil_scoped_release released;
    read = read_id_pairs(place_in(data, begin), &end);
  }
  return read ? nb::make_tuple(to_numpy(std::move(*read)), end) : nb::object(nb::none());
}

nb::object base64_tokens(const nb::bytes& data, size_t begin) {
  size_t end = 0;
  std::optional<TokenList> read;
  {
    const nb::gil_scoped_release released;
    read = read_base64_tokens(place_in(data, begin), &end);
  }
  if (!read) return nb::none();
  return nb::make_tuple(tuple_of(*read), to_numpy(std::move(read->ids)), end);
}

nb::bytes pairs_as_json(InputArray<int32_t> ids) {
  const std::string text = write_id_pairs(ids.data(), ids.shape(0) / 2);
  return nb::bytes(text.data(), text.size());
}

nb::bytes tokens_as_json(InputArray<uint8_t> data, InputArray<int64_t> offsets, InputArray<int32_t> ids) {
  check_ascending("offsets", offsets, data.shape(0));
  check_size("ids", ids, offsets.shape(0) - 1);
  const std::string text = write_base64_tokens(data.data(), offsets.data(), ids.data(), ids.shape(0));
  return nb::bytes(text.data(), text.size());
}

nb::object joined_merges(const nb::bytes& bytes, InputArray<int32_t> merges, size_t max_token,
                         size_t max_all) {
  if (bytes.size() != 256) throw std::invalid_argument("bytes: expected all 256");
  std::optional<TokenList> tokens;
  {
    const nb::gil_scoped_release released;
    tokens = join_merges(reinterpret_cast<const uint8_t*>(bytes.c_str()), merges.data(), merges.shape(0) / 2,
                         max_token, max_all);
  }
  return tokens ? tuple_of(*tokens) : nb::object(nb::none());
}

OutputArray<int32_t> joined_pairs(InputArray<uint8_t> data, InputArray<int64_t> offsets,
                                  InputArray<int32_t> ids, InputArray<int32_t> pairs) {
  check_ascending("offsets", offsets, data.shape(0));
  check_size("ids", ids, offsets.shape(0) - 1);
  std::vector<int32_t> results;
  {
    const nb::gil_scoped_release released;
    results =
        join_pairs(data.data(), offsets.data(), ids.data(), ids.shape(0), pairs.data(), pairs.shape(0) / 2);
  }
  return to_numpy(std::move(results));
}

}  // namespace

void bind_vocabulary_json(nb::module_& module) {
  module.def(
      "skip_json", [](const nb::bytes& data, size_t begin) { return skip_json(place_in(data, begin)); },
      nb::arg("data"), nb::arg("begin"),
      "Where the list or object that begins there ends; 0 if it does not.");
  module.def("read_named_bpe", &named_bpe, nb::arg("data"), nb::arg("vocabulary_at"), nb::arg("merges_at"),
             nb::arg("left_out"), "(tokens, ids, merges) of a byte-level vocabulary, or None.");
  module.def("read_id_pairs", &id_pairs, nb::arg("data"), nb::arg("begin"), "(ids, end), or None.");
  module.def("read_base64_tokens", &base64_tokens, nb::arg("data"), nb::arg("begin"),
             "(tokens, ids, end), or None.");
  module.def("write_id_pairs", &pairs_as_json, nb::arg("ids"), "Canonical JSON.");
  module.def("write_base64_tokens", &tokens_as_json, nb::arg("data"), nb::arg("offsets"), nb::arg("ids"),
             "Canonical JSON.");
  module.def("join_merges", &joined_merges, nb::arg("bytes"), nb::arg("merges"), nb::arg("max_token"),
             nb::arg("max_all"), "The tokens that merges make, or None.");
  module.def("join_pairs", &joined_pairs, nb::arg("data"), nb::arg("offsets"), nb::arg("ids"),
             nb::arg("pairs"), "The id of each pair of tokens joined, or -1.");
}

}  // namespace tokcore
