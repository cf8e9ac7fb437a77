#include "scan/scanner.h"

#include "scan/processor.h"
#include "scan/scanner_bert.h"
#include "scan/scanner_metaspace.h"
#include "scan/scanner_portable.h"
#include "scan/scanner_vectors.h"

namespace tokcore {

std::vector<Implementation> implementations() {
  static const Processor processor = detect_processor();
  static const bool avx512 = kScanAvx512 != nullptr && processor.avx512;
  static const bool avx2 = kScanAvx2 != nullptr && processor.avx2;
  std::vector<Implementation> can_run;
  if (avx512) can_run.push_back(Implementation::kAvx512);
  if (avx2) can_run.push_back(Implementation::kAvx2);
  can_run.push_back(Implementation::kPortable);
  return can_run;
}

std::string_view name_of(Implementation implementation) {
  switch (implementation) {
    case Implementation::kAvx512:
      return "avx512";
    case Implementation::kAvx2:
      return "avx2";
    case Implementation::kPortable:
      break;
  }
  return "portable";
}

std::optional<Pattern> pattern_from_name(std::string_view name) {
  if (name == "gpt2") return Pattern::kGpt2;
  if (name == "cl100k") return Pattern::kCl100k;
  if (name == "cl100k-2023") return Pattern::kCl100k2023;
  if (name == "o200k") return Pattern::kO200k;
  if (name == "llama3") return Pattern::kLlama3;
  if (name == "qwen2") return Pattern::kQwen2;
  if (name == "nanochat") return Pattern::kNanochat;
  if (name == "tekken") return Pattern::kTekken;
  if (name == "deepseek") return Pattern::kDeepseek;
  if (name == "bert") return Pattern::kBert;
  if (name == "metaspace") return Pattern::kMetaspace;
  return std::nullopt;
}

size_t Scanner::scan(const uint8_t* text, size_t size, size_t begin, uint64_t* ends, size_t capacity) const {
  if (pattern_ == Pattern::kBert) return scan_bert(text, size, begin, ends, capacity);
  if (pattern_ == Pattern::kMetaspace) return scan_metaspace(text, size, begin, ends, capacity);
  switch (implementation_) {
    case Implementation::kAvx512:
      return kScanAvx512(pattern_, text, size, begin, ends, capacity);
    case Implementation::kAvx2:
      return kScanAvx2(pattern_, text, size, begin, ends, capacity);
    case Implementation::kPortable:
      break;
  }
  return scan_portable(pattern_, text, size, begin, ends, capacity);
}

}  // namespace tokcore
