#include "scanner.h"

#include "scanner_portable.h"

namespace tokcore {

Implementation best_implementation() { return Implementation::kPortable; }

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
  return scan_portable(pattern_, text, size, begin, ends, capacity);
}

}  // namespace tokcore
