// DESCRIPTION
// Memory in large pages, where the system has them: getting a small page costs more than filling it, and
// finding it more than reading it. They are asked for before the first touch. Everything also works without
// them. Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace tokcore {

constexpr size_t kSmallPage = 4096, kLargePage = size_t{2} << 20;

// Asks for large pages for a block, from its first whole small page on: malloc's own bytes stand before the
// block in the large page where it begins.
inline void advise_large_pages(void* block, size_t size) {
#if defined(__linux__)
  const uintptr_t begin = reinterpret_cast<uintptr_t>(block) & ~(kSmallPage - 1);
  const uintptr_t end = (reinterpret_cast<uintptr_t>(block) + size) & ~(kLargePage - 1);
  if (begin < end) (void)madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);
#else
  (void)block;
  (void)size;
#endif
}

// A block for std::realloc and std::free; nullptr if memory is short. Not aligned: an aligned block would
// never be the one of that size that was freed last, but fresh pages, which the system must clear.
inline void* allocate_in_large_pages(size_t size) {
  void* block = std::malloc(size);
  if (block != nullptr && size >= kLargePage) advise_large_pages(block, size);
  return block;
}

}  // namespace tokcore
