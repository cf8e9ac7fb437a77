// DESCRIPTION
// IdBuffer is a growing array of ids in memory from malloc, so that numpy can own it without a copy. It is
// written once, from its start to its end, so it is in small pages, which it gets shortly before they are
// used. Not thread-safe.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>
#include <utility>

#include "memory/pages.h"

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
    if (size_ + more > provided_) provide_next();
  }
  void set_capacity(size_t capacity) {
    const size_t size_bytes = std::max<size_t>(capacity, 1) * sizeof(int32_t);
    void* moved = std::realloc(data_, size_bytes);
    if (moved == nullptr) throw std::bad_alloc();
    data_ = static_cast<int32_t*>(moved);
    capacity_ = capacity;
    provided_ = size_bytes < kLeastProvidedBytes ? capacity : std::min(provided_, capacity);
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
  // A small block is often one that was used before.
  static constexpr size_t kLeastProvidedBytes = size_t{2} << 20;
  static constexpr size_t kProvidedIds = size_t{1} << 18;

  void provide_next() {
    const size_t begin = std::max(provided_, size_), end = std::min(size_ + kProvidedIds, capacity_);
    if (begin >= end) return;
    provide_pages(data_ + begin, (end - begin) * sizeof(int32_t));
    provided_ = end;
  }

  void swap(IdBuffer& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    std::swap(capacity_, other.capacity_);
    std::swap(provided_, other.provided_);
  }

  int32_t* data_ = nullptr;
  size_t size_ = 0;
  size_t capacity_ = 0;
  size_t provided_ = 0;  // up to which id pages are there, or come as they are written
};

}  // namespace tokcore
