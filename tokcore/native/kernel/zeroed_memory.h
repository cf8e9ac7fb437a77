// DESCRIPTION
// ZeroedMemory is a block of zero bytes for a large table: on a cache line, in large pages where the system
// has them (asked for before the first touch), and costing nothing until it is touched. Throws
// std::bad_alloc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace tokcore {

class ZeroedMemory {
 public:
  ZeroedMemory() = default;

  explicit ZeroedMemory(size_t size) {
    if (size == 0) return;
#if defined(__linux__)
    // Room to move the start to a large page; small blocks need none.
    const size_t slack = size >= kLargePage ? kLargePage : 0;
    void* mapped = mmap(nullptr, size + slack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED) throw std::bad_alloc();
    block_ = mapped;
    block_size_ = size + slack;
    const uintptr_t address = reinterpret_cast<uintptr_t>(mapped);
    data_ = reinterpret_cast<uint8_t*>(slack == 0 ? address : (address + kLargePage - 1) & ~(kLargePage - 1));
    if (slack != 0) (void)madvise(data_, size, MADV_HUGEPAGE);  // advice: the table works without
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
    munmap(block_, block_size_);
#else
    std::free(block_);
#endif
  }

  uint8_t* data() const { return data_; }

 private:
  static constexpr uintptr_t kLargePage = uintptr_t{2} << 20;
  static constexpr uintptr_t kCacheLine = 64;

  void swap(ZeroedMemory& other) noexcept {
    std::swap(block_, other.block_);
    std::swap(block_size_, other.block_size_);
    std::swap(data_, other.data_);
  }

  void* block_ = nullptr;
  size_t block_size_ = 0;
  uint8_t* data_ = nullptr;
};

}  // namespace tokcore
