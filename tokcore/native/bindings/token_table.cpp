#include "decode/token_table.h"

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/pair.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "arrays.h"
#include "bindings.h"
#include "memory/buffer.h"

namespace nb = nanobind;

namespace tokcore {
namespace {

// What a thread decodes with, again and again. It is taken while it is in use, for a handler of errors may
// decode something itself; a large text does not stay in memory.
class Scratch {
 public:
  Scratch() {
    ids.swap(kept_ids());
    text.swap(kept_text());
  }
  ~Scratch() {
    if (ids.capacity() <= kKept) ids.swap(kept_ids());
    if (text.capacity() <= kKept) text.swap(kept_text());
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  Buffer<int32_t> ids;
  Buffer<uint8_t> text;

 private:
  static constexpr size_t kKept = size_t{1} << 20;

  static Buffer<int32_t>& kept_ids() {
    static thread_local Buffer<int32_t> kept;
    return kept;
  }
  static Buffer<uint8_t>& kept_text() {
    static thread_local Buffer<uint8_t> kept;
    return kept;
  }
};

nb::object steal_or_throw(PyObject* made) {
  if (made == nullptr) throw nb::python_error();
  return nb::steal(made);
}

// Some ids, what is known of their text, and the text itself.
class Decoded {
 public:
  Decoded(const TokenTable& table, const int32_t* ids, size_t num, bool is_whole)
      : table_(table), ids_(ids), num_(num), wrong_(table.measure(ids, num, &size_)) {
    if (!is_whole || !is_known()) return;
    head_ = table.head(ids, num);
    size_ -= head_;
    size_ -= std::min(size_, table.tail(ids, num));
  }

  bool is_known() const { return wrong_ == TokenTable::kAllKnown; }

  // Throws std::out_of_range (IndexError) with the place of an id that is no token, `before` more ids before
  // it.
  const Decoded& require(size_t before = 0) const {
    if (!is_known()) throw std::out_of_range(std::to_string(before + wrong_));
    return *this;
  }

  size_t size() const { return size_; }
  void write(uint8_t* out) const { table_.write(ids_, num_, head_, out, out + size_); }

  nb::object to_bytes() const {
    nb::object made = steal_or_throw(PyBytes_FromStringAndSize(nullptr, static_cast<Py_ssize_t>(size_)));
    write(reinterpret_cast<uint8_t*>(PyBytes_AS_STRING(made.ptr())));
    return made;
  }

  // As bytes.decode(errors=errors); no errors: bytes. buffer: is used again.
  nb::object to_python(const char* errors, Buffer<uint8_t>* buffer) const {
    if (errors == nullptr) return to_bytes();
    buffer->resize(size_);
    write(buffer->data());
    return steal_or_throw(PyUnicode_DecodeUTF8(reinterpret_cast<const char*>(buffer->data()),
                                               static_cast<Py_ssize_t>(size_), errors));
  }

 private:
  const TokenTable& table_;
  const int32_t* ids_;
  size_t num_;
  size_t size_ = 0;
  size_t head_ = 0;
  size_t wrong_;
};

// The value of an int; -1 if it is beyond all ids. Small ones, which nearly all are, without a call.
int32_t read_id(PyObject* item) {
#if PY_VERSION_HEX >= 0x030C0000
  auto* const number = reinterpret_cast<PyLongObject*>(item);
  const bool is_small = PyUnstable_Long_IsCompact(number);
  const Py_ssize_t small = is_small ? PyUnstable_Long_CompactValue(number) : 0;
#else
  const auto* const number = reinterpret_cast<const PyLongObject*>(item);
  const bool is_small = Py_SIZE(number) == 1;
  const Py_ssize_t small = is_small ? static_cast<Py_ssize_t>(number->ob_digit[0]) : 0;
#endif
  if (is_small) return small < 0 ? -1 : static_cast<int32_t>(small);
  int overflow = 0;
  const long value = PyLong_AsLongAndOverflow(item, &overflow);
  return overflow != 0 || value < 0 || value > INT32_MAX ? -1 : static_cast<int32_t>(value);
}

// The ids in a list. False if a value is not an int itself; an int beyond all ids becomes one that is no
// token.
bool read_list(const nb::list& list, Buffer<int32_t>* ids) {
  constexpr size_t kAhead = 16;  // items, each in a place of its own
  const size_t num = list.size();
  ids->resize(num);
  PyObject** const items = num != 0 ? &PyList_GET_ITEM(list.ptr(), 0) : nullptr;
  for (size_t i = 0; i < num; ++i) {
    if (i + kAhead < num) __builtin_prefetch(items[i + kAhead]);
    if (!PyLong_CheckExact(items[i])) return false;
    (*ids)[i] = read_id(items[i]);
  }
  return true;
}

class SharedTokenTable {
 public:
  SharedTokenTable(InputArray<int32_t> ids, InputArray<uint8_t> data, InputArray<int64_t> offsets,
                   InputArray<uint8_t> flags, bool drops_all)
      : table_(make(ids, data, offsets, flags, drops_all)) {}

  nb::object decode(InputArray<int32_t> ids, bool is_whole, nb::object errors) const {
    Scratch scratch;
    const Decoded decoded(table_, ids.data(), ids.shape(0), is_whole);
    return decoded.require().to_python(get_errors(errors), &scratch.text);
  }

  nb::object decode_list(const nb::list& list, bool is_whole, nb::object errors) const {
    Scratch scratch;
    if (!read_list(list, &scratch.ids)) return nb::none();
    const Decoded decoded(table_, scratch.ids.data(), scratch.ids.size(), is_whole);
    return decoded.require().to_python(get_errors(errors), &scratch.text);
  }

  // Each id by itself, but without what a text loses where it begins.
  nb::list spell_all(InputArray<int32_t> ids, bool is_start) const {
    size_t size = 0;
    const size_t num = ids.shape(0);
    const size_t wrong = table_.measure(ids.data(), num, &size);
    if (wrong != TokenTable::kAllKnown) throw std::out_of_range(std::to_string(wrong));
    size_t skipped = is_start ? table_.head(ids.data(), num) : 0;
    nb::list found;
    for (size_t i = 0; i < num; ++i) {
      const TokenTable::Span one = table_.spell(ids.data()[i]);
      const size_t gone = std::min(skipped, one.size);
      skipped -= gone;
      found.append(nb::bytes(reinterpret_cast<const char*>(one.data + gone), one.size - gone));
    }
    return found;
  }

  nb::list list_rows(InputArray<int32_t> ids, InputArray<int64_t> offsets, nb::object errors) const {
    check_ascending("offsets", offsets, ids.shape(0));
    const size_t num = offsets.shape(0) - 1;
    Scratch scratch;
    nb::list rows = nb::steal<nb::list>(PyList_New(static_cast<Py_ssize_t>(num)));
    for (size_t i = 0; i < num; ++i) {
      const auto first = static_cast<size_t>(offsets.data()[i]);
      const auto last = static_cast<size_t>(offsets.data()[i + 1]);
      const Decoded row(table_, ids.data() + first, last - first, true);
      PyList_SET_ITEM(rows.ptr(), static_cast<Py_ssize_t>(i),
                      row.require(first).to_python(get_errors(errors), &scratch.text).release().ptr());
    }
    return rows;
  }

  // A text for each list. None if one is no list, or holds what is no token's id.
  nb::object list_lists(const nb::list& rows, nb::object errors) const {
    Scratch scratch;
    const char* const said = get_errors(errors);
    const size_t num = rows.size();
    nb::list found = nb::steal<nb::list>(PyList_New(static_cast<Py_ssize_t>(num)));
    for (size_t i = 0; i < num; ++i) {
      if (rows.size() != num) return nb::none();
      PyObject* const row = PyList_GET_ITEM(rows.ptr(), static_cast<Py_ssize_t>(i));
      if (!PyList_CheckExact(row) || !read_list(nb::borrow<nb::list>(row), &scratch.ids)) return nb::none();
      const Decoded decoded(table_, scratch.ids.data(), scratch.ids.size(), true);
      if (!decoded.is_known()) return nb::none();
      PyList_SET_ITEM(found.ptr(), static_cast<Py_ssize_t>(i),
                      decoded.to_python(said, &scratch.text).release().ptr());
    }
    return found;
  }

  std::pair<OutputArray<uint8_t>, OutputArray<int64_t>> decode_rows(InputArray<int32_t> ids,
                                                                    InputArray<int64_t> offsets) const {
    check_ascending("offsets", offsets, ids.shape(0));
    Buffer<uint8_t> data;
    std::vector<int64_t> ends;
    {
      const nb::gil_scoped_release released;
      const size_t num = offsets.shape(0) - 1;
      std::vector<Decoded> rows;
      rows.reserve(num);
      ends.assign(num + 1, 0);
      for (size_t i = 0; i < num; ++i) {
        const auto first = static_cast<size_t>(offsets.data()[i]);
        const auto last = static_cast<size_t>(offsets.data()[i + 1]);
        rows.emplace_back(table_, ids.data() + first, last - first, true);
        rows.back().require(first);
        ends[i + 1] = ends[i] + static_cast<int64_t>(rows.back().size());
      }
      data.resize(static_cast<size_t>(ends.back()));
      for (size_t i = 0; i < num; ++i) rows[i].write(data.data() + ends[i]);
    }
    return {to_numpy(std::move(data)), to_numpy(std::move(ends))};
  }

  int64_t end() const { return table_.end(); }
  size_t size_bytes() const { return table_.size_bytes(); }

 private:
  static TokenTable make(const InputArray<int32_t>& ids, const InputArray<uint8_t>& data,
                         const InputArray<int64_t>& offsets, const InputArray<uint8_t>& flags,
                         bool drops_all) {
    const size_t num = ids.shape(0);
    check_ascending("offsets", offsets, data.shape(0));
    check_size("offsets", offsets, num + 1);
    check_size("flags", flags, num);
    for (size_t i = 0; i < num; ++i) {
      if (ids.data()[i] < 0) throw std::invalid_argument("ids: one is negative");
    }
    return TokenTable(ids.data(), num, data.data(), offsets.data(), flags.data(), drops_all);
  }

  static const char* get_errors(const nb::object& errors) {
    if (errors.is_none()) return nullptr;
    const char* const said = PyUnicode_AsUTF8(errors.ptr());
    if (said == nullptr) throw nb::python_error();
    return said;
  }

  const TokenTable table_;
};

}  // namespace

void bind_token_table(nb::module_& module) {
  nb::class_<SharedTokenTable>(module, "TokenTable")
      .def(nb::init<InputArray<int32_t>, InputArray<uint8_t>, InputArray<int64_t>, InputArray<uint8_t>,
                    bool>(),
           nb::arg("ids"), nb::arg("data"), nb::arg("offsets"), nb::arg("flags"), nb::arg("drops_all"))
      .def("decode", &SharedTokenTable::decode, nb::arg("ids"), nb::arg("is_whole"), nb::arg("errors").none())
      .def("decode_list", &SharedTokenTable::decode_list, nb::arg("ids"), nb::arg("is_whole"),
           nb::arg("errors").none(), "None if a value is not an int itself.")
      .def("spell_all", &SharedTokenTable::spell_all, nb::arg("ids"), nb::arg("is_start"))
      .def("list_rows", &SharedTokenTable::list_rows, nb::arg("ids"), nb::arg("offsets"),
           nb::arg("errors").none())
      .def("list_lists", &SharedTokenTable::list_lists, nb::arg("rows"), nb::arg("errors").none(),
           "None if a row is no list, or holds what is no token's id.")
      .def("decode_rows", &SharedTokenTable::decode_rows, nb::arg("ids"), nb::arg("offsets"))
      .def("end", &SharedTokenTable::end)
      .def("size_bytes", &SharedTokenTable::size_bytes);
}

}  // namespace tokcore
