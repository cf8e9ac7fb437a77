// DESCRIPTION
// IdBuffer is a growing array of ids in memory from malloc, so that numpy can own it without a copy. Not
// thread-safe.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>
#include <utility>

#include "memory/large_pages.h"

namespace tokcore {

class IdBuffer {
 public:
  IdBuffer() = default;
  IdBuffer(IdBuffer&& other) noexcept { swap(other); }
  IdBuffer& operator=(IdBuffer&& other) noexcept {
    swap(other);
    return *this;
  }
  IdBuffer(const IdBuffer&) = delete;
  IdBuffer& operator=(const IdBuffer&) = delete;
  ~IdBuffer() { std::free(data_); }

  // Makes room for `more` ids after the first size().
  void reserve_more(size_t more) {
    if (capacity_ - size_ < more) set_capacity(std::max(size_ + more, capacity_ + capacity_ / 2));
  }
  void set_capacity(size_t capacity) {
    const size_t size_bytes = std::max<size_t>(capacity, 1) * sizeof(int32_t);
    void* moved = data_ == nullptr ? allocate_in_large_pages(size_bytes) : std::realloc(data_, size_bytes);
    if (moved == nullptr) throw std::bad_alloc();
    data_ = static_cast<int32_t*>(moved);
    capacity_ = capacity;
  }
  // Frees the unused memory if there is much of it.
  void shrink() {
    if (capacity_ - size_ > size_ / 4) set_capacity(size_);
  }
  int32_t* end() const { return data_ + size_; }
  void set_end(const int32_t* end) { size_ = static_cast<size_t>(end - data_); }
  int32_t* data() const { return data_; }
  size_t size() const { return size_; }
  size_t capacity() const { return capacity_; }
  int32_t* release() { return std::exchange(data_, nullptr); }

 private:
  void swap(IdBuffer& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    std::swap(capacity_, other.capacity_);
  }

  int32_t* data_ = nullptr;
  size_t size_ = 0;
  size_t capacity_ = 0;
};

}  // namespace tokcore
