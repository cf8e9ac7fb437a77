// DESCRIPTION
// What the bindings of all encoders have in common: batches from Python and back, and their errors.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "arrays.h"
#include "encode/batches.h"
#include "encode/bpe_model.h"

namespace tokcore {

// Values of an array that is copied rather than handed over.
constexpr size_t kMaxCopied = 1024;

inline std::string describe(const VocabularyResult& result) {
  const std::string at = std::to_string(result.position);
  switch (result.status) {
    case VocabularyStatus::kOk:
      break;
    case VocabularyStatus::kBadOffsets:
      return "token " + at + ": its offsets do not ascend, or leave the data";
    case VocabularyStatus::kTooLarge:
      return "the tokens have " + at +
             " bytes together, or there are as many merges: at most 2^30 and 2^25 - 2";
    case VocabularyStatus::kNegativeId:
      return "token " + at + ": its id is negative";
    case VocabularyStatus::kEmptyToken:
      return "token " + at + ": it has no bytes";
    case VocabularyStatus::kDuplicateId:
      return "token " + at + ": an earlier one has the same id";
    case VocabularyStatus::kDuplicateToken:
      return "token " + at + ": an earlier one has the same bytes";
    case VocabularyStatus::kMissingByte:
      return "no token for the byte " + at + ": all 256 are needed";
    case VocabularyStatus::kUnknownId:
      return "merge " + at + ": one of its ids is no token";
    case VocabularyStatus::kUnknownSymbol:
      return "character " + at + ": its symbol is none of the vocabulary";
    case VocabularyStatus::kNotJoined:
      return "merge " + at + ": the bytes of its result are not those of its parts";
    case VocabularyStatus::kPrioritiesClash:
      return "merge " + at + ": another merge of the same priority makes a different token";
    case VocabularyStatus::kNotFinite:
      return "token " + at + ": its score is not a finite number";
    case VocabularyStatus::kTrieTooLarge:
      return "the " + at + " tokens are too many for a Unigram: their trie may have 2^24 places";
  }
  return "";
}

inline void check(const EncodeResult& result) {
  const std::string at = std::to_string(result.position);
  switch (result.status) {
    case EncodeStatus::kOk:
      return;
    case EncodeStatus::kBadOffsets:
      throw std::invalid_argument("offsets[" + at + "]: expected ascending positions in the data");
    case EncodeStatus::kBadPieces:
      throw std::invalid_argument("text " + at + ": its pieces are not in order, or do not cover it exactly");
    case EncodeStatus::kPieceTooLong:
      throw std::overflow_error("text " + at + ": a pre-token of it has 2^32 bytes or more");
    case EncodeStatus::kNoScanner:
      throw std::invalid_argument("this encoder has no pattern: split the texts and use encode_pieces");
    case EncodeStatus::kSurrogate:
      throw std::invalid_argument("text " + at + ": has a surrogate");
  }
}

inline nanobind::object to_python(IdBuffer&& buffer) {
  const size_t num_ids = buffer.size();
  if (num_ids <= kMaxCopied) return copy_to_numpy(buffer.data(), num_ids);
  int32_t* ids = buffer.release();
  nanobind::capsule owner(ids, [](void* pointer) noexcept { std::free(pointer); });
  return nanobind::cast(OutputArray<int32_t>(ids, {num_ids}, owner));
}

inline nanobind::object to_python(std::vector<int64_t>&& values) {
  if (values.size() <= kMaxCopied) return copy_to_numpy(values.data(), values.size());
  return nanobind::cast(to_numpy(std::move(values)));
}

inline nanobind::tuple to_python(EncodedBatch&& encoded) {
  return nanobind::make_tuple(to_python(std::move(encoded.ids)), to_python(std::move(encoded.offsets)),
                              to_python(std::move(encoded.pretokens)));
}

inline TextBatch text_batch(const InputArray<uint8_t>& data, const InputArray<int64_t>& offsets) {
  if (offsets.shape(0) == 0) throw std::invalid_argument("offsets: expected at least one, found none");
  return {data.data(), data.shape(0), offsets.data(), offsets.shape(0) - 1};
}

inline size_t checked_threads(int64_t threads) {
  if (threads < 1)
    throw std::invalid_argument("threads = " + std::to_string(threads) + ": expected at least 1");
  return static_cast<size_t>(threads);
}

template <typename AnyEncoder>
nanobind::tuple encode(AnyEncoder& self, InputArray<uint8_t> data, InputArray<int64_t> offsets,
                       int64_t threads) {
  const TextBatch texts = text_batch(data, offsets);
  const size_t num_threads = checked_threads(threads);
  EncodedBatch encoded;
  {
    const nanobind::gil_scoped_release released;
    check(self.encode(texts, num_threads, &encoded));
  }
  return to_python(std::move(encoded));
}

// The string as it is in memory; nothing if the object is neither str nor bytes. `kept` keeps copies of
// other objects that have bytes alive.
inline std::optional<StringView> view_of(PyObject* object, std::vector<nanobind::object>* kept) {
  if (PyUnicode_Check(object)) {
    const auto length = static_cast<size_t>(PyUnicode_GET_LENGTH(object));
    const void* data = PyUnicode_DATA(object);
    if (PyUnicode_IS_ASCII(object)) return StringView{data, length, Encoding::kUtf8};
    switch (PyUnicode_KIND(object)) {
      case PyUnicode_1BYTE_KIND:
        return StringView{data, length, Encoding::kLatin1};
      case PyUnicode_2BYTE_KIND:
        return StringView{data, length, Encoding::kUcs2};
      default:
        return StringView{data, length, Encoding::kUcs4};
    }
  }
  if (!PyBytes_Check(object)) {
    if (!PyObject_CheckBuffer(object)) return std::nullopt;
    kept->push_back(nanobind::steal(PyBytes_FromObject(object)));
    object = kept->back().ptr();
    if (object == nullptr) throw nanobind::python_error();
  }
  return StringView{PyBytes_AS_STRING(object), static_cast<size_t>(PyBytes_GET_SIZE(object)),
                    Encoding::kUtf8};
}

// The same for text i of a tuple; raises TypeError.
inline StringView view_text(const nanobind::tuple& texts, size_t i, std::vector<nanobind::object>* kept) {
  const std::optional<StringView> view = view_of(texts[i].ptr(), kept);
  if (!view)
    throw nanobind::type_error(
        ("texts[" + std::to_string(i) + "]: expected str or bytes, found " +
         nanobind::cast<std::string>(nanobind::type_name(nanobind::handle(texts[i]).type())))
            .c_str());
  return *view;
}

// The interpreter says best which surrogate a string has, and where.
inline void raise_surrogate(PyObject* string) {
  const nanobind::object bytes = nanobind::steal(PyUnicode_AsUTF8String(string));
  if (!bytes.is_valid()) throw nanobind::python_error();
}

// texts: a tuple, so that no other thread takes a string away meanwhile.
template <typename AnyEncoder>
nanobind::tuple encode_strings(AnyEncoder& self, const nanobind::tuple& texts, int64_t threads) {
  std::vector<StringView> strings(texts.size());
  std::vector<nanobind::object> kept;
  for (size_t i = 0; i < strings.size(); ++i) strings[i] = view_text(texts, i, &kept);
  const size_t num_threads = checked_threads(threads);
  EncodedBatch encoded;
  EncodeResult result;
  {
    const nanobind::gil_scoped_release released;
    result = self.encode_strings({strings.data(), strings.size()}, num_threads, &encoded);
  }
  if (result.status == EncodeStatus::kSurrogate) raise_surrogate(texts[result.position].ptr());
  check(result);
  return to_python(std::move(encoded));
}

// Lends the ids of one string to take, which has the interpreter.
template <typename AnyEncoder>
void encode_one(AnyEncoder& self, nanobind::handle text, const TakeIds& take) {
  // To give the interpreter to another thread costs as much as to encode this many units.
  constexpr size_t kMinReleasedUnits = 1024;
  std::vector<nanobind::object> kept;
  const std::optional<StringView> string = view_of(text.ptr(), &kept);
  if (!string) {
    const std::string found = nanobind::cast<std::string>(nanobind::type_name(text.type()));
    throw nanobind::type_error(("text: expected str or bytes, found " + found).c_str());
  }
  std::optional<nanobind::gil_scoped_release> released;
  if (string->num_units >= kMinReleasedUnits) released.emplace();
  const EncodeResult result = self.encode_string(*string, [&](const int32_t* ids, size_t num_ids) {
    released.reset();
    take(ids, num_ids);
  });
  released.reset();
  if (result.status == EncodeStatus::kSurrogate) raise_surrogate(text.ptr());
  check(result);
}

template <typename AnyEncoder>
nanobind::object encode_text(AnyEncoder& self, nanobind::handle text) {
  nanobind::object array;
  encode_one(self, text, [&](const int32_t* ids, size_t num_ids) { array = copy_to_numpy(ids, num_ids); });
  return array;
}

template <typename AnyEncoder>
size_t count_text(AnyEncoder& self, nanobind::handle text) {
  size_t count = 0;
  encode_one(self, text, [&](const int32_t*, size_t num_ids) { count = num_ids; });
  return count;
}

template <typename AnyEncoder>
nanobind::tuple encode_pieces(AnyEncoder& self, InputArray<uint8_t> data, InputArray<int64_t> offsets,
                              InputArray<int64_t> ends, InputArray<int64_t> firsts, int64_t threads) {
  const TextBatch texts = text_batch(data, offsets);
  const size_t num_threads = checked_threads(threads);
  check_size("firsts", firsts, offsets.shape(0));
  EncodedBatch encoded;
  {
    const nanobind::gil_scoped_release released;
    const Pieces pieces{ends.data(), ends.shape(0), firsts.data()};
    check(self.encode_pieces(texts, pieces, num_threads, &encoded));
  }
  return to_python(std::move(encoded));
}

// Adds what every encoder has.
template <typename AnyEncoder>
void bind_encoding(nanobind::class_<AnyEncoder>& encoder) {
  encoder
      .def("encode", &encode<AnyEncoder>, nanobind::arg("data"), nanobind::arg("offsets"),
           nanobind::arg("threads"), "(ids, offsets, pre-tokens of each text)")
      .def("encode_strings", &encode_strings<AnyEncoder>, nanobind::arg("texts"), nanobind::arg("threads"),
           "The same for a tuple of str and bytes.")
      .def("encode_text", &encode_text<AnyEncoder>, nanobind::arg("text"), "The ids of one str or bytes.")
      .def("count_text", &count_text<AnyEncoder>, nanobind::arg("text"), "How many they are.")
      .def("encode_pieces", &encode_pieces<AnyEncoder>, nanobind::arg("data"), nanobind::arg("offsets"),
           nanobind::arg("ends"), nanobind::arg("firsts"), nanobind::arg("threads"),
           "The same for texts that are already split.");
}

}  // namespace tokcore
