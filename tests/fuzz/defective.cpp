// No target: a defect, by which the tests know that what runs targets notices one and keeps its input.
#include "input.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto copy = tokcore::fuzz::exact(text);
  if (size > 0 && data[0] == 'x') return copy[size] == 1 ? 1 : 0;
  return 0;
}
