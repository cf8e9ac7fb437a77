// DESCRIPTION
// What the fuzz targets share: Input takes decisions and strings out of the bytes that a target is given,
// from the front, zeros when they are used up; exact() copies bytes to a heap block of just their size, so
// that the address sanitizer sees a byte read beyond them; expect() stops the program, for the fuzzer to keep
// the input.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace tokcore::fuzz {

inline void expect(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "not so: %s\n", what);
  std::abort();
}

inline std::unique_ptr<uint8_t[]> exact(std::string_view bytes) {
  auto copy = std::make_unique<uint8_t[]>(bytes.size());
  std::copy(bytes.begin(), bytes.end(), copy.get());
  return copy;
}

class Input {
 public:
  Input(const uint8_t* data, size_t size) : at_(data), end_(data + size) {}

  size_t left() const { return static_cast<size_t>(end_ - at_); }
  uint8_t byte() { return at_ == end_ ? 0 : *at_++; }
  bool flag() { return (byte() & 1) != 0; }

  // limit: at least 1, at most 2^16.
  size_t below(size_t limit) { return (limit <= 256 ? byte() : byte() | size_t{byte()} << 8) % limit; }

  // Any number, and small ones and those at the edges often.
  uint64_t number() {
    static constexpr uint64_t kEdges[] = {
        uint64_t{1} << 16, uint64_t{1} << 31, uint64_t{1} << 32, (uint64_t{1} << 32) - 1, uint64_t{1} << 62,
        uint64_t{1} << 63, UINT64_MAX,        UINT64_MAX - 1,    UINT64_MAX / 2,          0};
    const uint8_t kind = byte();
    if (kind < 200) return kind;
    if (kind < 240) return kEdges[kind % std::size(kEdges)];
    uint64_t value = 0;
    for (int i = 0; i < 8; ++i) value = value << 8 | byte();
    return value;
  }

  std::string_view take(size_t size) {
    const std::string_view taken(reinterpret_cast<const char*>(at_), std::min(size, left()));
    at_ += taken.size();
    return taken;
  }
  std::string_view rest() { return take(left()); }

 private:
  const uint8_t* at_;
  const uint8_t* end_;
};

}  // namespace tokcore::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);
