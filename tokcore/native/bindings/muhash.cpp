#include "digest/muhash.h"

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <stdexcept>
#include <string>

#include "arrays.h"
#include "bindings.h"

namespace nb = nanobind;

namespace tokcore {
namespace {

class SharedMuHash {
 public:
  explicit SharedMuHash(const nb::bytes& value) : hash_(checked(value)) {}

  void add(InputArray<uint8_t> keys) {
    const size_t num_keys = count(keys);
    locked([&] { hash_.add(keys.data(), num_keys); });
  }
  void subtract(InputArray<uint8_t> keys) {
    const size_t num_keys = count(keys);
    locked([&] { hash_.subtract(keys.data(), num_keys); });
  }
  // Another hash comes by its value, so that no two are ever locked at once.
  void add_value(const nb::bytes& value) {
    const MuHash other = checked(value);
    locked([&] { hash_.add(other); });
  }
  void subtract_value(const nb::bytes& value) {
    const MuHash other = checked(value);
    locked([&] { hash_.subtract(other); });
  }

  nb::bytes value() {
    MuHash::Value value;
    locked([&] { value = hash_.value(); });
    return nb::bytes(value.data(), value.size());
  }

 private:
  template <typename Action>
  void locked(Action action) {
    const nb::gil_scoped_release released;
    const std::lock_guard guard(mutex_);
    action();
  }

  static MuHash checked(const nb::bytes& bytes) {
    if (bytes.size() != MuHash::kValueBytes) {
      throw std::invalid_argument("value: " + std::to_string(bytes.size()) + " bytes, expected " +
                                  std::to_string(MuHash::kValueBytes));
    }
    MuHash::Value value;
    std::copy_n(static_cast<const uint8_t*>(bytes.data()), value.size(), value.begin());
    return MuHash(value);
  }

  static size_t count(const InputArray<uint8_t>& keys) {
    if (keys.shape(0) % MuHash::kKeyBytes != 0) {
      throw std::invalid_argument("keys: " + std::to_string(keys.shape(0)) + " bytes, expected " +
                                  std::to_string(MuHash::kKeyBytes) + " of each");
    }
    return keys.shape(0) / MuHash::kKeyBytes;
  }

  MuHash hash_;
  std::mutex mutex_;
};

}  // namespace

void bind_muhash(nb::module_& module) {
  nb::class_<SharedMuHash>(module, "MuHash")
      .def(nb::init<const nb::bytes&>(), nb::arg("value"))
      .def("add", &SharedMuHash::add, nb::arg("keys"))
      .def("subtract", &SharedMuHash::subtract, nb::arg("keys"))
      .def("add_value", &SharedMuHash::add_value, nb::arg("value"))
      .def("subtract_value", &SharedMuHash::subtract_value, nb::arg("value"))
      .def("value", &SharedMuHash::value);
}

}  // namespace tokcore
