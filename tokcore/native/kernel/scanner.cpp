#include "scanner.h"

#include "scanner_avx2.h"
#include "scanner_portable.h"

#if defined(__x86_64__) && defined(__GNUC__)
#include <cpuid.h>
#endif

namespace tokcore {
namespace {

// Whether processor and operating system support every instruction that *_avx2.cpp files are compiled with.
bool has_avx2() {
#if defined(__x86_64__) && defined(__GNUC__)
  unsigned int a, b, c = 0, d;
  const bool has_lzcnt = __get_cpuid(0x80000001, &a, &b, &c, &d) != 0 && (c >> 5 & 1) != 0;
  return has_lzcnt && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") &&
         __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("popcnt") &&
         __builtin_cpu_supports("pclmul");
#else
  return false;
#endif
}

}  // namespace

Implementation best_implementation() {
  static const bool wide = kAvx2Compiled && has_avx2();
  return wide ? Implementation::kAvx2 : Implementation::kPortable;
}

std::optional<Pattern> pattern_from_name(std::string_view name) {
  if (name == "gpt2") return Pattern::kGpt2;
  if (name == "cl100k") return Pattern::kCl100k;
  if (name == "cl100k-2023") return Pattern::kCl100k2023;
  if (name == "o200k") return Pattern::kO200k;
  if (name == "llama3") return Pattern::kLlama3;
  if (name == "qwen2") return Pattern::kQwen2;
  if (name == "nanochat") return Pattern::kNanochat;
  return std::nullopt;
}

std::optional<Implementation> implementation_from_name(std::string_view name) {
  if (name == "portable") return Implementation::kPortable;
  if (name == "avx2") return Implementation::kAvx2;
  return std::nullopt;
}

size_t Scanner::scan(const uint8_t* text, size_t size, size_t begin, uint64_t* ends, size_t capacity) const {
  return implementation_ == Implementation::kAvx2
             ? scan_avx2(pattern_, text, size, begin, ends, capacity)
             : scan_portable(pattern_, text, size, begin, ends, capacity);
}

}  // namespace tokcore
