// DESCRIPTION
// WorkerPool runs a function on several threads at once, one of them the calling thread, and waits for all.
// run() rethrows an exception of any of them. Worth it for rounds of a hundred microseconds or more. Not
// thread-safe.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace tokcore {

class WorkerPool {
 public:
  explicit WorkerPool(size_t num_workers) {
    try {
      for (size_t i = 1; i < num_workers; ++i) threads_.emplace_back([this, i] { serve(i); });
    } catch (...) {
      stop();
      throw;
    }
  }
  ~WorkerPool() { stop(); }
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  // Calls action(i) for every worker i; worker 0 is the calling thread.
  void run(const std::function<void(size_t)>& action) {
    action_ = &action;
    pending_.store(threads_.size(), std::memory_order_relaxed);
    round_.fetch_add(1, std::memory_order_release);
    round_.notify_all();
    guarded(0);
    for (size_t left; (left = pending_.load(std::memory_order_acquire)) != 0;) pending_.wait(left);
    if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
  }

 private:
  void serve(size_t index) {
    for (uint32_t seen = 0;;) {
      round_.wait(seen, std::memory_order_acquire);
      ++seen;
      if (stopping_) return;
      guarded(index);
      if (pending_.fetch_sub(1, std::memory_order_acq_rel) == 1) pending_.notify_one();
    }
  }

  void guarded(size_t index) {
    try {
      (*action_)(index);
    } catch (...) {
      const std::lock_guard guard(error_mutex_);
      if (!error_) error_ = std::current_exception();
    }
  }

  void stop() {
    stopping_ = true;
    round_.fetch_add(1, std::memory_order_release);
    round_.notify_all();
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
  }

  std::vector<std::thread> threads_;
  const std::function<void(size_t)>* action_ = nullptr;
  std::atomic<uint32_t> round_{0};
  std::atomic<size_t> pending_{0};
  bool stopping_ = false;  // written before a round starts, read after
  std::mutex error_mutex_;
  std::exception_ptr error_;
};

}  // namespace tokcore
