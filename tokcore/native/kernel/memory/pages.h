// DESCRIPTION
// Large and small pages. Tables are in large pages, where the system has them: with small ones, a page fault
// costs more than filling the page, and a TLB miss more than reading from it. Large pages are requested
// before the first touch. An array that is written once, from start to end, has few TLB misses in small
// pages. It gets many of them with one call. Large ones can be slow to clear there: a virtual machine may
// have given their memory back to its host. Everything also works without all this. Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace tokcore {

constexpr size_t kSmallPage = 4096, kLargePage = size_t{2} << 20;

// Requests large pages for a block, from the start of the small page where it begins. malloc's own bytes are
// before the block, so it never begins at a large page itself.
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

// A block for std::realloc and std::free; nullptr if memory is short. Not aligned, so that malloc can reuse
// the block of that size that was freed last. An aligned one would always be fresh pages, which the system
// must clear.
inline void* allocate_in_large_pages(size_t size) {
  void* block = std::malloc(size);
  if (block != nullptr && size >= kLargePage) advise_large_pages(block, size);
  return block;
}

// Has the system provide the small pages of a part that is written soon, which saves a page fault for each.
inline void provide_pages(void* part, size_t size) {
#if defined(__linux__) && defined(MADV_POPULATE_WRITE)
  const uintptr_t at = reinterpret_cast<uintptr_t>(part);
  const uintptr_t begin = (at + kSmallPage - 1) & ~(kSmallPage - 1), end = (at + size) & ~(kSmallPage - 1);
  if (begin < end) (void)madvise(reinterpret_cast<void*>(begin), end - begin, MADV_POPULATE_WRITE);
#else
  (void)part;
  (void)size;
#endif
}

}  // namespace tokcore
