// DESCRIPTION
// Which of the instructions that wide scanners are compiled for this machine has. Asked once. Thread-safe.
#pragma once

#include <cstdint>

#if defined(__x86_64__) && defined(__GNUC__)
#include <cpuid.h>
#endif

namespace tokcore {

// What both the processor and the operating system support. It asks the processor, and not
// __builtin_cpu_supports, which always says no where the runtime is not GCC's, as with zig.
struct Processor {
  bool avx2 = false;    // AVX2, BMI1, BMI2, LZCNT, POPCNT and PCLMULQDQ
  bool avx512 = false;  // these, and AVX-512 F, BW, VL, VBMI and VBMI2
};

inline Processor detect_processor() {
  Processor found;
#if defined(__x86_64__) && defined(__GNUC__)
  uint32_t a = 0, b = 0, c = 0, d = 0;
  const auto all = [](uint32_t value, uint32_t bits) { return (value & bits) == bits; };
  // Leaf 1: PCLMULQDQ, POPCNT, OSXSAVE (xgetbv may be used), AVX.
  if (__get_cpuid(1, &a, &b, &c, &d) == 0 || !all(c, 1u << 1 | 1u << 23 | 1u << 27 | 1u << 28)) return found;
  uint32_t saved, high;
  __asm__("xgetbv" : "=a"(saved), "=d"(high) : "c"(0));
  if (!all(saved, 0b110)) return found;  // the system keeps xmm and ymm registers
  if (__get_cpuid(0x80000001, &a, &b, &c, &d) == 0 || !all(c, 1u << 5)) return found;  // LZCNT
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0) return found;
  found.avx2 = all(b, 1u << 3 | 1u << 5 | 1u << 8);  // BMI1, AVX2, BMI2
  found.avx512 = found.avx2 && all(saved, 0b11100000) &&
                 all(b, 1u << 16 | 1u << 30 | 1u << 31) &&  // F, BW, VL
                 all(c, 1u << 1 | 1u << 6);                 // VBMI, VBMI2
#endif
  return found;
}

}  // namespace tokcore
