// DESCRIPTION
// ZeroedMemory is a block of zero bytes for a large table. It starts on a cache line, is in large pages
// where the system has them, and costs nothing until it is touched. Throws std::bad_alloc. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

#include "memory/pages.h"

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace tokcore {

class ZeroedMemory {
 public:
  ZeroedMemory() = default;

  explicit ZeroedMemory(size_t size) : size_(size) {
    if (size == 0) return;
#if defined(__linux__)
    // A large block is whole large pages, and room to move the start to the first of them.
    const bool is_large = size >= kLargePage;
    if (is_large) size = (size + kLargePage - 1) & ~(kLargePage - 1);
    const size_t slack = is_large ? kLargePage : 0;
    void* mapped = mmap(nullptr, size + slack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED) throw std::bad_alloc();
    block_ = mapped;
    block_size_ = size + slack;
    const uintptr_t address = reinterpret_cast<uintptr_t>(mapped);
    data_ = reinterpret_cast<uint8_t*>(is_large ? (address + kLargePage - 1) & ~(kLargePage - 1) : address);
    if (is_large) advise_large_pages(data_, size);
#else
    block_ = std::calloc(size + kCacheLine, 1);
    if (block_ == nullptr) throw std::bad_alloc();
    const uintptr_t address = reinterpret_cast<uintptr_t>(block_);
    data_ = reinterpret_cast<uint8_t*>((address + kCacheLine - 1) & ~(kCacheLine - 1));
#endif
  }

  ZeroedMemory(ZeroedMemory&& other) noexcept { swap(other); }
  ZeroedMemory& operator=(ZeroedMemory&& other) noexcept {
    swap(other);
    return *this;
  }
  ZeroedMemory(const ZeroedMemory&) = delete;
  ZeroedMemory& operator=(const ZeroedMemory&) = delete;

  ~ZeroedMemory() {
    if (block_ == nullptr) return;
#if defined(__linux__)
    unmap(static_cast<uint8_t*>(block_), static_cast<uint8_t*>(block_) + block_size_);
#else
    std::free(block_);
#endif
  }

  uint8_t* data() const { return data_; }

  // Makes the block larger, at another address. Keeps its bytes; the new ones are zero, and should be used
  // soon. On Linux this moves pages, not bytes, so that never more than new_size is in use.
  void grow(size_t new_size) {
    ZeroedMemory larger(new_size);
#if defined(__linux__)
    if (size_ >= kLargePage && size_ % kLargePage == 0) {
      if (mremap(data_, size_, size_, MREMAP_MAYMOVE | MREMAP_FIXED, larger.data_) != larger.data_) {
        throw std::bad_alloc();
      }
      // Do not unmap the old addresses: another thread may already have them.
      auto* const block = static_cast<uint8_t*>(block_);
      unmap(block, data_);
      unmap(data_ + size_, block + block_size_);
      block_ = nullptr;
#ifdef MADV_POPULATE_WRITE
      (void)madvise(larger.data_ + size_, new_size - size_, MADV_POPULATE_WRITE);
#endif
      swap(larger);
      return;
    }
#endif
    if (size_ != 0) std::memcpy(larger.data_, data_, size_);
    swap(larger);
  }

 private:
  static constexpr uintptr_t kCacheLine = 64;

  void swap(ZeroedMemory& other) noexcept {
    std::swap(block_, other.block_);
    std::swap(block_size_, other.block_size_);
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
  }

#if defined(__linux__)
  static void unmap(uint8_t* begin, uint8_t* end) {
    if (begin != end) munmap(begin, static_cast<size_t>(end - begin));
  }
#endif

  void* block_ = nullptr;
  size_t block_size_ = 0;
  uint8_t* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace tokcore
