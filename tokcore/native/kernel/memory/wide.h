// DESCRIPTION
// Products of unsigned 64-bit integers in full width: of two, of two with a sum, and of three for comparing.
// Exact. Thread-safe.
#pragma once

#include <compare>
#include <cstdint>

namespace tokcore {

struct Wide128 {
  uint64_t high;
  uint64_t low;

  friend auto operator<=>(const Wide128&, const Wide128&) = default;
};

struct Wide192 {
  uint64_t high;
  uint64_t middle;
  uint64_t low;

  friend auto operator<=>(const Wide192&, const Wide192&) = default;
};

inline Wide128 multiply(uint64_t a, uint64_t b) {
#ifdef __SIZEOF_INT128__
  __extension__ using Wide = unsigned __int128;
  const Wide product = static_cast<Wide>(a) * b;
  return {static_cast<uint64_t>(product >> 64), static_cast<uint64_t>(product)};
#else
  const uint64_t a_low = a & 0xFFFFFFFF, a_high = a >> 32, b_low = b & 0xFFFFFFFF, b_high = b >> 32;
  const uint64_t middle = a_high * b_low + (a_low * b_low >> 32);
  const uint64_t carry = (middle & 0xFFFFFFFF) + a_low * b_high;
  return {a_high * b_high + (middle >> 32) + (carry >> 32), a * b};
#endif
}

// a * b + c + d, which always fits.
inline Wide128 multiply_add(uint64_t a, uint64_t b, uint64_t c, uint64_t d) {
#ifdef __SIZEOF_INT128__
  __extension__ using Wide = unsigned __int128;
  const Wide sum = static_cast<Wide>(a) * b + c + d;
  return {static_cast<uint64_t>(sum >> 64), static_cast<uint64_t>(sum)};
#else
  Wide128 sum = multiply(a, b);
  sum.high += (sum.low += c) < c;
  sum.high += (sum.low += d) < d;
  return sum;
#endif
}

inline Wide192 multiply(Wide128 a, uint64_t b) {
  const Wide128 low = multiply(a.low, b), high = multiply(a.high, b);
  const uint64_t middle = high.low + low.high;
  return {high.high + (middle < high.low), middle, low.low};
}

}  // namespace tokcore
