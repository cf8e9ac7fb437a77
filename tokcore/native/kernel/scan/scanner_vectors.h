// DESCRIPTION
// The wide scanner (scanner_wide.h), compiled once for each width of vectors. Each form is nullptr where the
// compiler was not asked for its instructions. Call one only if implementations() lists it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "scan/scanner.h"

namespace tokcore {

// As Scanner::scan, for a pattern.
using WideScan = size_t(Pattern pattern, const uint8_t* text, size_t size, size_t begin, uint64_t* ends,
                        size_t capacity);

extern WideScan* const kScanAvx2;    // x86-64 with AVX2 and BMI
extern WideScan* const kScanAvx512;  // x86-64 with AVX-512 BW and VBMI2

}  // namespace tokcore
