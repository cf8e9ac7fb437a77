#include "coverage.h"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace {

// By the place of an instruction in the program, which is smaller than this or nearly so.
std::array<std::atomic<uint8_t>, size_t{1} << 22> reached;
std::atomic<bool> any_new;

}  // namespace

// Called by the compiler's leave at every branch.
extern "C" __attribute__((no_sanitize("address", "undefined"))) void __sanitizer_cov_trace_pc();
extern "C" void __sanitizer_cov_trace_pc() {
  // As a distance, so that it is the same wherever the program was loaded.
  const uintptr_t place = reinterpret_cast<uintptr_t>(__builtin_return_address(0)) -
                          reinterpret_cast<uintptr_t>(&__sanitizer_cov_trace_pc);
  std::atomic<uint8_t>& here = reached[place % reached.size()];
  if (here.load(std::memory_order_relaxed) != 0) return;
  here.store(1, std::memory_order_relaxed);
  any_new.store(true, std::memory_order_relaxed);
}

bool tokcore::fuzz::reached_new_place() { return any_new.exchange(false, std::memory_order_relaxed); }
