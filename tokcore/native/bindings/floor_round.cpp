#include "learn/floor_round.h"

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/tuple.h>

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <tuple>
#include <utility>

#include "arrays.h"
#include "bindings.h"

namespace nb = nanobind;

namespace tokcore {
namespace {

// Holds what the round points to.
class HeldFloorRound {
 public:
  HeldFloorRound(InputArray<int32_t> left, InputArray<int32_t> right, nb::bytes id_of_byte, bool ends_words,
                 size_t max_token_bytes, size_t threads, unsigned bound_bits, size_t max_pieces,
                 size_t max_symbols)
      : round_(checked(left, right, id_of_byte, ends_words), right.data(), left.shape(0),
               {.id_of_byte = copied(id_of_byte),
                .ends_words = ends_words,
                .max_token_bytes = max_token_bytes,
                .threads = threads,
                .bound_bits = bound_bits,
                .max_pieces = max_pieces,
                .max_symbols = max_symbols}) {}

  void add_counts(InputArray<uint8_t> data, InputArray<int64_t> offsets, InputArray<uint64_t> counts) {
    const ByteWords words = words_of(data, offsets, counts);
    const nb::gil_scoped_release released;
    if (!round_.add_counts(words))
      throw std::overflow_error("the pairs of the table are more than 2**63 - 1");
  }
  uint64_t num_windows() const { return round_.num_windows(); }
  OutputArray<uint64_t> bounds() const { return to_numpy(std::vector<uint64_t>(round_.bounds())); }
  void set_bounds(InputArray<uint64_t> bounds) {
    check_size("bounds", bounds, round_.bounds().size());
    round_.set_bounds(bounds.data());
  }
  uint64_t highest_bound() const { return round_.highest_bound(); }
  void begin_pieces(uint64_t count, uint64_t last) {
    round_.begin_pieces({.count = std::max<uint64_t>(count, 1), .last = last});
  }
  void add_pieces(InputArray<uint8_t> data, InputArray<int64_t> offsets, InputArray<uint64_t> counts) {
    const ByteWords words = words_of(data, offsets, counts);
    const nb::gil_scoped_release released;
    round_.add_pieces(words);
  }
  void add_cut_pieces(InputArray<uint32_t> symbols, InputArray<int64_t> offsets,
                      InputArray<uint64_t> counts) {
    check_ascending("offsets", offsets, symbols.shape(0));
    check_size("counts", counts, offsets.shape(0) - 1);
    const uint32_t* const end = symbols.data() + symbols.shape(0);
    if (std::any_of(symbols.data(), end, [this](uint32_t symbol) { return symbol >= round_.num_symbols(); }))
      throw std::invalid_argument("a piece of symbols that are not there yet");
    const nb::gil_scoped_release released;
    round_.add_pieces(SymbolWords{symbols.data(), offsets.data(), counts.data(), counts.shape(0)});
  }
  std::tuple<OutputArray<uint32_t>, OutputArray<int64_t>, OutputArray<uint64_t>> pieces() const {
    const SymbolWords words = round_.pieces();
    const auto num_symbols = words.offsets[words.num_words];
    return {to_numpy(std::vector<uint32_t>(words.symbols, words.symbols + num_symbols)),
            to_numpy(std::vector<int64_t>(words.offsets, words.offsets + words.num_words + 1)),
            to_numpy(std::vector<uint64_t>(words.counts, words.counts + words.num_words))};
  }
  std::tuple<uint64_t, uint64_t> limit() const { return {round_.limit().count, round_.limit().last}; }
  size_t num_pieces() const { return round_.num_pieces(); }
  std::tuple<OutputArray<int32_t>, OutputArray<int32_t>, OutputArray<uint64_t>> learn(size_t num_merges,
                                                                                      size_t threads) {
    Learned learned;
    {
      const nb::gil_scoped_release released;
      learned = round_.learn({.num_merges = num_merges, .threads = threads});
    }
    return {to_numpy(std::move(learned.left)), to_numpy(std::move(learned.right)),
            to_numpy(std::move(learned.count))};
  }

 private:
  // The left parts. Throws std::invalid_argument for a merge of what is not there yet.
  static const int32_t* checked(const InputArray<int32_t>& left, const InputArray<int32_t>& right,
                                const nb::bytes& id_of_byte, bool ends_words) {
    check_size("right", right, left.shape(0));
    if (id_of_byte.size() != 256) throw std::invalid_argument("id_of_byte: expected 256 ids");
    const int64_t num_first = ends_words ? 512 : 256;
    for (size_t i = 0; i < left.shape(0); ++i) {
      for (const int64_t part : {left.data()[i], right.data()[i]}) {
        if (part < 0 || part >= num_first + static_cast<int64_t>(i))
          throw std::invalid_argument("a merge of symbols that are not there yet");
      }
    }
    return left.data();
  }
  const uint8_t* copied(const nb::bytes& id_of_byte) {
    const auto* const ids = static_cast<const uint8_t*>(id_of_byte.data());
    std::copy(ids, ids + 256, id_of_byte_);
    return id_of_byte_;
  }
  ByteWords words_of(const InputArray<uint8_t>& data, const InputArray<int64_t>& offsets,
                     const InputArray<uint64_t>& counts) const {
    check_ascending("offsets", offsets, data.shape(0));
    check_size("counts", counts, offsets.shape(0) - 1);
    return {data.data(), id_of_byte_, offsets.data(), counts.data(), counts.shape(0)};
  }

  uint8_t id_of_byte_[256];
  FloorRound round_;
};

}  // namespace

void bind_floor_round(nb::module_& module) {
  nb::class_<HeldFloorRound>(module, "FloorRound")
      .def(nb::init<InputArray<int32_t>, InputArray<int32_t>, nb::bytes, bool, size_t, size_t, unsigned,
                    size_t, size_t>(),
           nb::arg("left"), nb::arg("right"), nb::arg("id_of_byte"), nb::arg("ends_words"),
           nb::arg("max_token_bytes"), nb::arg("threads"), nb::arg("bound_bits"), nb::arg("max_pieces"),
           nb::arg("max_symbols"))
      .def("add_counts", &HeldFloorRound::add_counts, nb::arg("data"), nb::arg("offsets"), nb::arg("counts"))
      .def("num_windows", &HeldFloorRound::num_windows)
      .def("bounds", &HeldFloorRound::bounds)
      .def("set_bounds", &HeldFloorRound::set_bounds, nb::arg("bounds"))
      .def("highest_bound", &HeldFloorRound::highest_bound)
      .def("begin_pieces", &HeldFloorRound::begin_pieces, nb::arg("count"), nb::arg("last"))
      .def("add_pieces", &HeldFloorRound::add_pieces, nb::arg("data"), nb::arg("offsets"), nb::arg("counts"))
      .def("add_cut_pieces", &HeldFloorRound::add_cut_pieces, nb::arg("symbols"), nb::arg("offsets"),
           nb::arg("counts"))
      .def("pieces", &HeldFloorRound::pieces)
      .def("limit", &HeldFloorRound::limit)
      .def("num_pieces", &HeldFloorRound::num_pieces)
      .def("learn", &HeldFloorRound::learn, nb::arg("num_merges"), nb::arg("threads"));
}

}  // namespace tokcore
