// DESCRIPTION
// Memory in large pages, where the system has them: a small one costs more to get than to fill, and more to
// find than to read. They are asked for before the first touch; without them all works as well.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace tokcore {

constexpr size_t kSmallPage = 4096, kLargePage = size_t{2} << 20;

// For what of a block can have them. From its first small page on: the large page that a block begins with
// has a few bytes of malloc's before it.
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

// A block for std::realloc and std::free; nullptr if there is none. Not an aligned one: those are never the
// block of that size that was freed last, but fresh pages, which must be cleared.
inline void* allocate_in_large_pages(size_t size) {
  void* block = std::malloc(size);
  if (block != nullptr && size >= kLargePage) advise_large_pages(block, size);
  return block;
}

}  // namespace tokcore
