// DESCRIPTION
// Draws are numbers of 64 bits, each a function of a seed and of how many came before (splitmix64).
#pragma once

#include <cstdint>

namespace tokcore {

class Draws {
 public:
  explicit Draws(uint64_t seed) : state_(seed) {}

  uint64_t next() {
    state_ += 0x9E3779B97F4A7C15u;
    uint64_t z = state_;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
  }

 private:
  uint64_t state_;
};

// Whether something happens, with the probability (last + 1) / 2^64.
class Chance {
 public:
  explicit Chance(uint64_t last) : last_(last) {}
  bool happens(Draws& draws) const { return draws.next() <= last_; }

 private:
  uint64_t last_;
};

}  // namespace tokcore
