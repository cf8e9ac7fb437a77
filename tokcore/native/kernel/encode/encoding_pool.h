// DESCRIPTION
// EncodingPool deals the texts of a batch to threads, gives each thread a worker, and puts the ids together
// in the order of the texts. It keeps the workers, whose caches are warm then, for later batches. Several
// threads may call run at once.
#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "encode/batches.h"
#include "encode/id_assembler.h"

namespace tokcore {

// Runs work in num_threads threads, one of them the calling thread. Rethrows an exception of any of them.
template <typename Work>
void run_in_threads(size_t num_threads, const Work& work) {
  std::vector<std::exception_ptr> failures(num_threads);
  const auto guarded = [&](size_t thread) {
    try {
      work();
    } catch (...) {
      failures[thread] = std::current_exception();
    }
  };
  std::vector<std::thread> others;
  try {
    for (size_t thread = 1; thread < num_threads; ++thread) others.emplace_back(guarded, thread);
    guarded(0);
  } catch (...) {  // a thread that did not start
    failures[0] = std::current_exception();
  }
  for (std::thread& other : others) other.join();
  for (const std::exception_ptr& failure : failures) {
    if (failure) std::rethrow_exception(failure);
  }
}

// The first text of each range, and the number of texts. Ranges have about equal bytes. There are enough of
// them that an expensive one does not leave other threads idle at the end, and few enough that handing them
// out costs little.
std::vector<size_t> find_ranges(const int64_t* offsets, size_t num_texts, size_t threads);

template <typename Worker>
class EncodingPool {
 public:
  static constexpr size_t kMaxWorkers = 8;

  // cache_bytes: a worker's share. If there are more than kMaxWorkers, they share what these have.
  explicit EncodingPool(size_t cache_bytes) : cache_bytes_(cache_bytes) {}

  // pieces: how the texts are cut; nullptr: they are not. threads > 0. A worker is made as Worker(encoder,
  // share of cache_bytes). Throws std::bad_alloc, and std::system_error if a thread cannot start.
  template <typename Encoder>
  EncodeResult encode(const Encoder& encoder, const TextBatch& texts, const Pieces* pieces, size_t threads,
                      EncodedBatch* encoded) {
    const EncodeResult checked = check_offsets(texts);
    if (checked.status != EncodeStatus::kOk) return checked;
    return run(
        texts.offsets, texts.num_texts, threads, encoded,
        [&](size_t share) { return std::make_unique<Worker>(encoder, share); },
        [&](Worker& worker, size_t first, size_t last, IdBuffer* ids, int64_t* starts, int64_t* pretokens) {
          return worker.encode(texts, pieces, first, last, ids, starts, pretokens);
        });
  }

  // The same for strings.
  template <typename Encoder>
  EncodeResult encode_strings(const Encoder& encoder, const StringBatch& texts, size_t threads,
                              EncodedBatch* encoded) {
    return run(
        list_about_offsets(texts).data(), texts.num_texts, threads, encoded,
        [&](size_t share) { return std::make_unique<Worker>(encoder, share); },
        [&](Worker& worker, size_t first, size_t last, IdBuffer* ids, int64_t* starts, int64_t* pretokens) {
          return worker.encode_strings(texts, first, last, ids, starts, pretokens);
        });
  }

  // The same for one string, whose ids are lent to take(ids, num_ids). A short one costs little beyond its
  // pre-tokens: no offsets are made, nothing is dealt to threads, and memory is that of the call before.
  template <typename Encoder>
  EncodeResult encode_string(const Encoder& encoder, const StringView& string, const TakeIds& take) {
    Lease lease(*this, [&](size_t share) { return std::make_unique<Worker>(encoder, share); });
    IdBuffer& ids = lease.kept.ids;
    ids.set_end(ids.data());
    int64_t starts[2] = {}, num_pretokens = 0;
    const EncodeResult result =
        lease.kept.worker->encode_strings({&string, 1}, 0, 1, &ids, starts, &num_pretokens);
    if (result.status == EncodeStatus::kOk) take(ids.data(), ids.size());
    if (ids.capacity() > kMaxKeptIds) ids = IdBuffer();
    return result;
  }

 private:
  // offsets: num_texts + 1, ascending; for strings, estimates are enough.
  // make_worker(share) makes a Worker, which has cache_bytes(). encode_range(worker, first, last, ids,
  // starts, pretokens) appends the ids of these texts, and sets starts[i + 1] to their number up to the end
  // of text i.
  template <typename MakeWorker, typename EncodeRange>
  EncodeResult run(const int64_t* offsets, size_t num_texts, size_t threads, EncodedBatch* encoded,
                   const MakeWorker& make_worker, const EncodeRange& encode_range) {
    const auto total = static_cast<size_t>(offsets[num_texts] - offsets[0]);
    encoded->offsets.assign(num_texts + 1, 0);
    encoded->pretokens.assign(num_texts, 0);

    // A little more than earlier texts needed. With less, the buffer would have to grow, which copies; with
    // much more, malloc could not reuse the memory that the ids of the last call have just freed.
    const auto usual_ids = [rate = ids_per_kilobyte_.load()](size_t bytes) {
      return bytes / 1024 * rate + 4096;
    };

    const std::vector<size_t> firsts = find_ranges(offsets, num_texts, threads);
    const size_t num_ranges = firsts.size() - 1;
    const size_t num_threads = std::min(threads, num_ranges);
    if (num_threads == 1) {
      const Lease lease(*this, make_worker);
      encoded->ids.set_capacity(usual_ids(total));
      const EncodeResult result = encode_range(*lease.kept.worker, 0, num_texts, &encoded->ids,
                                               encoded->offsets.data(), encoded->pretokens.data());
      encoded->ids.shrink();
      note_rate(total, encoded->ids.size());
      return result;
    }
    std::vector<EncodeResult> results(num_ranges, {EncodeStatus::kOk, 0});
    IdAssembler assembler(firsts, usual_ids(total), &encoded->ids, encoded->offsets.data());
    std::atomic<size_t> next_range{0};
    run_in_threads(num_threads, [&] {
      const Lease lease(*this, make_worker);
      for (size_t i; (i = next_range.fetch_add(1)) < num_ranges;) {
        const size_t first = firsts[i], last = firsts[i + 1];
        IdBuffer ids = assembler.buffer(usual_ids(static_cast<size_t>(offsets[last] - offsets[first])));
        results[i] = encode_range(*lease.kept.worker, first, last, &ids, encoded->offsets.data(),
                                  encoded->pretokens.data());
        assembler.put(i, std::move(ids));
      }
    });
    for (const EncodeResult& result : results) {
      if (result.status != EncodeStatus::kOk) return result;
    }
    assembler.finish();
    note_rate(total, encoded->ids.size());
    return {EncodeStatus::kOk, 0};
  }

  struct Kept {
    std::unique_ptr<Worker> worker;
    IdBuffer ids;  // of encode_string
  };

  // Lends a worker to one thread; afterwards the pool keeps it for the next.
  struct Lease {
    template <typename MakeWorker>
    Lease(EncodingPool& lender, const MakeWorker& make_worker) : pool(lender) {
      size_t share;
      {
        const std::lock_guard lock(pool.mutex_);
        pool.num_leased_ += 1;
        if (!pool.idle_.empty()) {
          kept = std::move(pool.idle_.back());
          pool.idle_.pop_back();
        }
        pool.most_workers_ = std::max(pool.most_workers_, pool.num_leased_ + pool.idle_.size());
        share = pool.cache_bytes_;
        if (pool.most_workers_ > kMaxWorkers) share = share * kMaxWorkers / std::bit_ceil(pool.most_workers_);
      }
      // If more threads than ever, and more than kMaxWorkers, use the pool, each gets a smaller share of the
      // budget. A cache larger than its share is replaced by an empty one.
      if (kept.worker != nullptr && kept.worker->cache_bytes() <= share) return;
      kept.worker.reset();
      kept.worker = make_worker(share);
    }
    ~Lease() {
      const std::lock_guard lock(pool.mutex_);
      pool.num_leased_ -= 1;
      pool.idle_.push_back(std::move(kept));
    }
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;

    EncodingPool& pool;
    Kept kept;
  };

  void note_rate(size_t bytes, size_t num_ids) {
    if (bytes < kMinRatedBytes) return;
    ids_per_kilobyte_ = static_cast<uint32_t>(num_ids / (bytes / 1024 * 7 / 8)) + 1;
  }

  static constexpr size_t kMaxKeptIds = size_t{1} << 18;
  static constexpr size_t kMinRatedBytes = size_t{1} << 16;  // a smaller batch says little about the next one

  size_t cache_bytes_;
  std::atomic<uint32_t> ids_per_kilobyte_ = 512;  // rate of the last batch and an eighth more; high at first
  std::mutex mutex_;                              // guards the members below
  std::vector<Kept> idle_;
  size_t num_leased_ = 0;
  size_t most_workers_ = 0;
};

}  // namespace tokcore
