#include "count/counter.h"

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "arrays.h"
#include "bindings.h"
#include "count/row_merger.h"
#include "memory/hash.h"

namespace nb = nanobind;

namespace tokcore {
namespace {

using RowArrays =
    std::tuple<OutputArray<uint8_t>, OutputArray<int64_t>, OutputArray<uint64_t>, OutputArray<uint64_t>>;

RowArrays to_arrays(Rows&& rows) {
  return {to_numpy(std::move(rows.data)), to_numpy(std::move(rows.offsets)), to_numpy(std::move(rows.counts)),
          to_numpy(std::move(rows.documents))};
}

RowView row_view(const InputArray<uint8_t>& data, const InputArray<int64_t>& offsets,
                 const InputArray<uint64_t>& counts, const InputArray<uint64_t>& documents) {
  check_ascending("offsets", offsets, data.shape(0));
  const size_t size = offsets.shape(0) - 1;
  check_size("counts", counts, size);
  check_size("documents", documents, size);
  return {data.data(), offsets.data(), counts.data(), documents.data(), size};
}

std::string shown(const uint8_t* key, size_t size) {
  const nb::bytes start(key, std::min<size_t>(size, 40));
  return nb::repr(start).c_str();
}

// Base of objects with state, which Python may share between threads.
class Shared {
 protected:
  // Runs action without the GIL, in one thread at a time, and returns its result.
  template <typename Action>
  auto locked(Action action) {
    nb::gil_scoped_release released;  // before the lock: its holder may be waiting for the GIL
    std::lock_guard guard(mutex_);
    return action();
  }

  std::mutex mutex_;
};

class SharedCounter : Shared {
 public:
  SharedCounter(std::string_view pattern, int64_t max_pretoken_bytes, std::string_view implementation)
      : counter_(scanner_from_names(pattern, implementation), checked(max_pretoken_bytes)) {}

  void add(InputArray<uint8_t> data, InputArray<int64_t> offsets) {
    check_ascending("offsets", offsets, data.shape(0));
    raise(locked(
        [&] { return counter_.add(data.data(), data.shape(0), offsets.data(), offsets.shape(0) - 1); }));
  }

  void add_pieces(InputArray<uint8_t> data, InputArray<int64_t> offsets, InputArray<int64_t> ends,
                  InputArray<int64_t> firsts) {
    check_ascending("offsets", offsets, data.shape(0));
    check_size("firsts", firsts, offsets.shape(0));
    check_ascending("firsts", firsts, ends.shape(0));
    raise(locked([&] {
      return counter_.add_pieces(data.data(), data.shape(0), offsets.data(), offsets.shape(0) - 1,
                                 ends.data(), firsts.data());
    }));
  }

  RowArrays take() {
    return to_arrays(locked([&] { return counter_.take(); }));
  }

  static std::vector<RowArrays> take_all(std::vector<SharedCounter*> shared, size_t num_threads) {
    if (num_threads == 0) throw std::invalid_argument("threads = 0: must be at least 1");
    std::sort(shared.begin(), shared.end());  // all threads lock in the same order
    if (std::adjacent_find(shared.begin(), shared.end()) != shared.end()) {
      throw std::invalid_argument("counters: one of them is named twice");
    }
    if (std::find(shared.begin(), shared.end(), nullptr) != shared.end()) {
      throw std::invalid_argument("counters: None is no counter");
    }
    std::vector<Rows> taken;
    {
      nb::gil_scoped_release released;
      std::vector<std::unique_lock<std::mutex>> guards;
      std::vector<Counter*> counters;
      for (SharedCounter* counter : shared) {
        guards.emplace_back(counter->mutex_);
        counters.push_back(&counter->counter_);
      }
      taken = Counter::take_all(counters, num_threads);
    }
    std::vector<RowArrays> arrays;
    for (Rows& rows : taken) arrays.push_back(to_arrays(std::move(rows)));
    return arrays;
  }

  size_t memory_bytes() {
    return locked([&] { return counter_.memory_bytes(); });
  }
  size_t num_rows() {
    return locked([&] { return counter_.num_rows(); });
  }
  uint64_t num_pretokens() {
    return locked([&] { return counter_.num_pretokens(); });
  }

 private:
  static size_t checked(int64_t limit) {
    if (limit < 0 || (limit > 0 && limit < 4)) {
      throw std::invalid_argument("max_pretoken_bytes = " + std::to_string(limit) +
                                  ": must be 0 (never cut) or at least 4, the longest character");
    }
    return static_cast<size_t>(limit);
  }

  static void raise(CounterStatus status) {
    switch (status) {
      case CounterStatus::kOk:
        return;
      case CounterStatus::kBadOffsets:
        throw std::invalid_argument("ends: the pieces of a text must ascend from its start to its end");
      case CounterStatus::kTooManyDocuments:
        throw std::overflow_error("more than 2**32 - 2 documents in one counter: take() its rows before");
    }
  }

  Counter counter_;
};

class SharedRowMerger : Shared {
 public:
  SharedRowMerger(size_t num_runs, std::optional<std::vector<uint64_t>> multipliers)
      : merger_(multipliers ? *multipliers : std::vector<uint64_t>(num_runs, 1)),
        blocks_(merger_.num_runs()) {
    if (merger_.num_runs() != num_runs) {
      throw std::invalid_argument(std::to_string(merger_.num_runs()) + " multipliers for " +
                                  std::to_string(num_runs) + " runs");
    }
  }

  void feed(size_t run, InputArray<uint8_t> data, InputArray<int64_t> offsets, InputArray<uint64_t> counts,
            InputArray<uint64_t> documents) {
    const RowView rows = row_view(data, offsets, counts, documents);
    locked([&] {
      check_run(run);
      const std::vector<size_t> hungry = merger_.hungry();
      if (std::find(hungry.begin(), hungry.end(), run) == hungry.end()) {
        throw std::invalid_argument("run " + std::to_string(run) + " is not hungry");
      }
      merger_.feed(run, rows);
    });
    blocks_[run] = {std::move(data), std::move(offsets), std::move(counts), std::move(documents)};
  }

  void finish(size_t run) {
    locked([&] {
      check_run(run);
      merger_.finish(run);
    });
  }

  std::vector<size_t> hungry() {
    return locked([&] { return merger_.hungry(); });
  }

  std::optional<RowArrays> merge(size_t max_rows) {
    Rows rows;
    bool done = false;
    const MergeResult result = locked([&] {
      const MergeResult merged = merger_.merge(max_rows, rows);
      done = merger_.done();
      return merged;
    });
    if (result.status == MergeStatus::kNotSorted) {
      const Block& block = blocks_[result.run];
      const int64_t* bounds = block.offsets.data() + result.row;
      throw std::invalid_argument(
          "run " + std::to_string(result.run) + " is not sorted: " +
          shown(block.data.data() + bounds[0], static_cast<size_t>(bounds[1] - bounds[0])) + ", row " +
          std::to_string(result.row) + " of a block, is not after the row before it");
    }
    if (result.status == MergeStatus::kOverflow) {
      const auto begin = static_cast<size_t>(rows.offsets[result.row]);
      throw std::overflow_error("the count of " + shown(rows.data.data() + begin, rows.data.size() - begin) +
                                " passes 2**64 - 1");
    }
    if (done && rows.size() == 0) return std::nullopt;
    return to_arrays(std::move(rows));
  }

 private:
  void check_run(size_t run) const {
    if (run >= merger_.num_runs()) throw std::out_of_range("run " + std::to_string(run) + " does not exist");
  }

  // Keeps alive the arrays that the merger reads.
  struct Block {
    InputArray<uint8_t> data;
    InputArray<int64_t> offsets;
    InputArray<uint64_t> counts;
    InputArray<uint64_t> documents;
  };

  RowMerger merger_;
  std::vector<Block> blocks_;
};

OutputArray<int64_t> assign_partitions(InputArray<uint8_t> data, InputArray<int64_t> offsets,
                                       uint64_t num_partitions) {
  check_ascending("offsets", offsets, data.shape(0));
  if (!std::has_single_bit(num_partitions) || num_partitions > (uint64_t{1} << 32)) {
    throw std::invalid_argument("num_partitions = " + std::to_string(num_partitions) +
                                ": must be a power of two, at most 2**32");
  }
  std::vector<int64_t> partitions(offsets.shape(0) - 1);
  {
    nb::gil_scoped_release released;
    const int shift = 64 - std::countr_zero(num_partitions);
    const uint8_t* const limit = data.data() + data.shape(0);
    for (size_t i = 0; i < partitions.size(); ++i) {
      const int64_t begin = offsets.data()[i];
      const auto size = static_cast<size_t>(offsets.data()[i + 1] - begin);
      const uint64_t hash = hash_bytes(data.data() + begin, size, limit);
      partitions[i] = shift == 64 ? 0 : static_cast<int64_t>(hash >> shift);
    }
  }
  return to_numpy(std::move(partitions));
}

OutputArray<uint8_t> pack_rows(InputArray<uint8_t> data, InputArray<int64_t> offsets,
                               InputArray<uint64_t> counts, InputArray<uint64_t> documents) {
  const RowView rows = row_view(data, offsets, counts, documents);
  constexpr size_t kFixedBytes = 4 + 8 + 8;
  std::vector<uint8_t> packed;
  {
    nb::gil_scoped_release released;
    packed.resize(static_cast<size_t>(rows.offsets[rows.size] - rows.offsets[0]) + rows.size * kFixedBytes);
    uint8_t* place = packed.data();
    const auto put = [&](const void* bytes, size_t size) {
      std::memcpy(place, bytes, size);
      place += size;
    };
    for (size_t i = 0; i < rows.size; ++i) {
      const auto size = static_cast<uint64_t>(rows.offsets[i + 1] - rows.offsets[i]);
      if (size > std::numeric_limits<uint32_t>::max()) {
        throw std::overflow_error("a pre-token of " + std::to_string(size) + " bytes has no 32-bit length");
      }
      const uint64_t length = little_endian(size);
      put(&length, 4);
      put(rows.data + rows.offsets[i], size);
      const uint64_t numbers[] = {little_endian(rows.counts[i]), little_endian(rows.documents[i])};
      put(numbers, sizeof numbers);
    }
  }
  return to_numpy(std::move(packed));
}

}  // namespace

void bind_counter(nb::module_& module) {
  nb::class_<SharedCounter>(module, "Counter")
      .def(nb::init<std::string_view, int64_t, std::string_view>(), nb::arg("pattern"),
           nb::arg("max_pretoken_bytes"), nb::arg("implementation"))
      .def("add", &SharedCounter::add, nb::arg("data"), nb::arg("offsets"))
      .def("add_pieces", &SharedCounter::add_pieces, nb::arg("data"), nb::arg("offsets"), nb::arg("ends"),
           nb::arg("firsts"))
      .def("take", &SharedCounter::take,
           "(data, offsets, counts, documents) of all rows, sorted; empties the table.")
      .def_static("take_all", &SharedCounter::take_all, nb::arg("counters"), nb::arg("threads"),
                  "The same of several counters together, in parts that follow each other.")
      .def_prop_ro("memory_bytes", &SharedCounter::memory_bytes)
      .def_prop_ro("num_rows", &SharedCounter::num_rows)
      .def_prop_ro("num_pretokens", &SharedCounter::num_pretokens);
  nb::class_<SharedRowMerger>(module, "RowMerger")
      .def(nb::init<size_t, std::optional<std::vector<uint64_t>>>(), nb::arg("num_runs"),
           nb::arg("multipliers").none())
      .def("feed", &SharedRowMerger::feed, nb::arg("run"), nb::arg("data"), nb::arg("offsets"),
           nb::arg("counts"), nb::arg("documents"))
      .def("finish", &SharedRowMerger::finish, nb::arg("run"))
      .def_prop_ro("hungry", &SharedRowMerger::hungry)
      .def("merge", &SharedRowMerger::merge, nb::arg("max_rows"),
           "(data, offsets, counts, documents) of the next rows, or None at the end of all runs.");
  module.def("assign_partitions", &assign_partitions, nb::arg("data"), nb::arg("offsets"),
             nb::arg("num_partitions"));
  module.def("pack_rows", &pack_rows, nb::arg("data"), nb::arg("offsets"), nb::arg("counts"),
             nb::arg("documents"));
}

}  // namespace tokcore
