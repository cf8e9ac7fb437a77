// DESCRIPTION
// The scanner of the pattern "bert": runs of white space, each punctuation character by itself, and runs of
// all other characters. Its classes are those of tokenizers' BertPreTokenizer, which follow no version of
// Unicode.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tokcore {

// As Scanner::scan.
size_t scan_bert(const uint8_t* text, size_t size, size_t begin, uint64_t* ends, size_t capacity);

}  // namespace tokcore
