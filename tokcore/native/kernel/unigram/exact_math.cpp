#include "unigram/exact_math.h"

#include <bit>
#include <cstdint>

namespace tokcore {
namespace {

// ln 2 in two parts, of which the first has so few bits that its product with an exponent is exact.
constexpr double kLn2High = 0x1.62e42fee00000p-1;
constexpr double kLn2Low = 0x1.a39ef35793c76p-33;
constexpr double kLog2E = 0x1.71547652b82fep+0;
constexpr double kSqrt2 = 0x1.6a09e667f3bcdp+0;
constexpr int kBias = 1023, kMantissaBits = 52, kLeastExponent = -1000;

double make_power_of_two(int64_t exponent) {
  return std::bit_cast<double>(static_cast<uint64_t>(exponent + kBias) << kMantissaBits);
}

}  // namespace

double exact_exp(double x) {
  const auto exponent = static_cast<int64_t>(x * kLog2E + (x < 0 ? -0.5 : 0.5));
  if (exponent < kLeastExponent) return 0;
  const auto scale = static_cast<double>(exponent);
  const double rest = (x - scale * kLn2High) - scale * kLn2Low;
  // The series of exp up to rest^14 / 14!, from the last term to the first.
  double sum = 1;
  for (int n = 14; n > 0; --n) sum = 1 + sum * rest / n;
  return sum * make_power_of_two(exponent);
}

double exact_log(double x) {
  const auto bits = std::bit_cast<uint64_t>(x);
  int64_t exponent = static_cast<int64_t>(bits >> kMantissaBits) - kBias;
  double mantissa = x * make_power_of_two(-exponent / 2) * make_power_of_two(-exponent - -exponent / 2);
  if (mantissa > kSqrt2) {
    mantissa /= 2;
    ++exponent;
  }
  // log m = 2 artanh((m - 1) / (m + 1)), by its series up to the power 23.
  const double f = (mantissa - 1) / (mantissa + 1), square = f * f;
  double sum = 0;
  for (int n = 23; n > 0; n -= 2) sum = sum * square + 1.0 / n;
  const auto scale = static_cast<double>(exponent);
  return scale * kLn2High + (scale * kLn2Low + 2 * f * sum);
}

double exact_digamma(double x) {
  double shifted = 0;
  for (; x < 16; x += 1) shifted -= 1 / x;
  const double square = 1 / (x * x);
  const double series =
      square *
      (1.0 / 12 - square * (1.0 / 120 - square * (1.0 / 252 - square * (1.0 / 240 - square * (1.0 / 132)))));
  return shifted + (exact_log(x) - 0.5 / x - series);
}

}  // namespace tokcore
