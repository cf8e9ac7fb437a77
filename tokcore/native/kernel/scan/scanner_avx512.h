// DESCRIPTION
// The wide scanner for x86-64 processors with AVX-512 BW and VBMI2. Enter only if implementations() has
// kAvx512.
#pragma once

#include <cstddef>
#include <cstdint>

#include "scan/scanner.h"

namespace tokcore {

// Whether it was compiled; if not, scan_avx512 is scan_portable.
extern const bool kAvx512Compiled;

// As Scanner::scan.
size_t scan_avx512(Pattern pattern, const uint8_t* text, size_t size, size_t begin, uint64_t* ends,
                   size_t capacity);

}  // namespace tokcore
