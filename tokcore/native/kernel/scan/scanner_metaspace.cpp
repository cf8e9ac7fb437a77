#include "scan/scanner_metaspace.h"

namespace tokcore {

size_t scan_metaspace(const uint8_t* text, size_t size, size_t begin, uint64_t* ends, size_t capacity) {
  size_t count = 0;
  while (count < capacity && begin < size) {
    begin = find_space_symbol(text, size, begin + 1);
    ends[count++] = begin;
  }
  return count;
}

}  // namespace tokcore
