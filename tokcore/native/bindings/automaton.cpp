#include "scan/automaton.h"

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "arrays.h"
#include "bindings.h"

namespace nb = nanobind;

namespace tokcore {
namespace {

template <typename T>
std::vector<T> to_vector(const InputArray<T>& values) {
  return {values.data(), values.data() + values.shape(0)};
}

void make_automaton(Automaton* place, size_t num_classes, InputArray<uint16_t> transitions,
                    InputArray<uint16_t> leaf_of_block, InputArray<uint8_t> leaves,
                    InputArray<uint8_t> byte_classes, InputArray<uint8_t> regions) {
  AutomatonTables tables{num_classes,       to_vector(transitions),  to_vector(leaf_of_block),
                         to_vector(leaves), to_vector(byte_classes), to_vector(regions)};
  if (const std::string fault = Automaton::find_fault(tables); !fault.empty()) {
    throw std::invalid_argument(fault);
  }
  new (place) Automaton(std::move(tables));
}

std::tuple<OutputArray<int64_t>, OutputArray<uint8_t>, OutputArray<int64_t>> split_by_automaton(
    const Automaton& automaton, InputArray<uint8_t> data, InputArray<int64_t> offsets, bool bytewise) {
  check_ascending("offsets", offsets, data.shape(0));
  const size_t num_texts = offsets.shape(0) - 1;
  std::vector<int64_t> ends;
  std::vector<uint8_t> are_matches;
  std::vector<int64_t> firsts;
  {
    nb::gil_scoped_release released;
    firsts.reserve(num_texts + 1);
    firsts.push_back(0);
    const int64_t* bounds = offsets.data();
    DeadEnds dead_ends;
    for (size_t i = 0; i < num_texts; ++i) {
      const auto size = static_cast<size_t>(bounds[i + 1] - bounds[i]);
      automaton.split(data.data() + bounds[i], size, bytewise, dead_ends, [&](size_t end, bool is_match) {
        ends.push_back(bounds[i] + static_cast<int64_t>(end));
        are_matches.push_back(is_match);
      });
      firsts.push_back(static_cast<int64_t>(ends.size()));
    }
  }
  return {to_numpy(std::move(ends)), to_numpy(std::move(are_matches)), to_numpy(std::move(firsts))};
}

std::pair<OutputArray<int64_t>, OutputArray<int64_t>> split_by_chain(
    const std::vector<std::pair<const Automaton*, bool>>& automata, InputArray<uint8_t> data,
    InputArray<int64_t> offsets) {
  check_ascending("offsets", offsets, data.shape(0));
  const size_t num_texts = offsets.shape(0) - 1;
  std::vector<AutomatonChain::Link> links;
  for (const auto& [automaton, bytewise] : automata) links.push_back({automaton, bytewise});
  AutomatonChain chain(std::move(links));
  std::vector<int64_t> ends;
  ends.reserve(data.shape(0) / 4 + num_texts);  // memory that is not used costs nothing
  std::vector<int64_t> firsts;
  {
    nb::gil_scoped_release released;
    firsts.reserve(num_texts + 1);
    firsts.push_back(0);
    const int64_t* bounds = offsets.data();
    for (size_t i = 0; i < num_texts; ++i) {
      const auto size = static_cast<size_t>(bounds[i + 1] - bounds[i]);
      if (size > 0) {
        chain.split(data.data() + bounds[i], size,
                    [&](size_t end) { ends.push_back(bounds[i] + static_cast<int64_t>(end)); });
      }
      firsts.push_back(static_cast<int64_t>(ends.size()));
    }
  }
  return {to_numpy(std::move(ends)), to_numpy(std::move(firsts))};
}

}  // namespace

void bind_automaton(nb::module_& module) {
  nb::class_<Automaton>(module, "Automaton", "The matches of a regular expression, by tables.")
      .def("__init__", &make_automaton, nb::arg("num_classes"), nb::arg("transitions"),
           nb::arg("leaf_of_block"), nb::arg("leaves"), nb::arg("byte_classes"), nb::arg("regions"))
      .def("split", &split_by_automaton, nb::arg("data"), nb::arg("offsets"), nb::arg("bytewise"),
           "Ends of matches and of what is between them (absolute in data), of each whether it is a match, "
           "and "
           "per text the index of its first one (n + 1).");
  module.def(
      "split_by_chain", &split_by_chain, nb::arg("automata"), nb::arg("data"), nb::arg("offsets"),
      "Ends of the pieces that automata, each with whether it is bytewise, make one after the other, and per "
      "text the index of its first one.");
}

}  // namespace tokcore
