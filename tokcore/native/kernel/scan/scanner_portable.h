// DESCRIPTION
// The portable scanner: one character after the other, on any processor. It is the oracle of the wide
// scanners, which also call it for text too rare to be worth masks.
#pragma once

#include <cstddef>
#include <cstdint>

#include "scan/scanner.h"

namespace tokcore {

// The end of the pre-token that starts at begin < size.
using Cut = size_t (*)(const uint8_t* text, size_t size, size_t begin);
Cut portable_cut(Pattern pattern);

// As Scanner::scan.
size_t scan_portable(Pattern pattern, const uint8_t* text, size_t size, size_t begin, uint64_t* ends,
                     size_t capacity);

}  // namespace tokcore
