// DESCRIPTION
// Buffer is a vector for large arrays that are written once: new elements are not set to zero, and a large
// buffer is in large pages. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <new>
#include <utility>
#include <vector>

#include "memory/pages.h"

namespace tokcore {

template <typename T>
struct BufferAllocator {
  using value_type = T;

  BufferAllocator() = default;
  template <typename Other>
  explicit BufferAllocator(const BufferAllocator<Other>&) {}

  T* allocate(size_t size) {
    if (size > std::numeric_limits<size_t>::max() / 4 / sizeof(T)) throw std::bad_alloc();
    void* block = allocate_in_large_pages(size * sizeof(T));
    if (block == nullptr) throw std::bad_alloc();
    return static_cast<T*>(block);
  }
  void deallocate(T* block, size_t) { std::free(block); }

  template <typename U>
  void construct(U* place) {
    ::new (static_cast<void*>(place)) U;
  }
  template <typename U, typename... Arguments>
  void construct(U* place, Arguments&&... arguments) {
    ::new (static_cast<void*>(place)) U(std::forward<Arguments>(arguments)...);
  }

  friend bool operator==(const BufferAllocator&, const BufferAllocator&) { return true; }
};

template <typename T>
using Buffer = std::vector<T, BufferAllocator<T>>;

}  // namespace tokcore
