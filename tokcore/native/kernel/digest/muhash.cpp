#include "digest/muhash.h"

#include <cstring>

#include "memory/wide.h"

namespace tokcore {
namespace {

using Number = MuHash::Number;

constexpr size_t kLimbs = MuHash::kValueBytes / 8;

// The prime is 2^3072 - kBelow, so modulo the prime 2^3072 is kBelow.
constexpr uint64_t kBelow = 1103717;

// Adds a number of one limb; what carries out of the last limb.
uint64_t add_small(Number& number, uint64_t addend) {
  for (uint64_t& limb : number) {
    limb += addend;
    addend = limb < addend;
  }
  return addend;
}

// The factor may be the number itself.
void multiply_by(Number& number, const Number& factor) {
  constexpr size_t kUnrolled = 16;  // a loop of known length, which compilers unroll
  static_assert(kLimbs % kUnrolled == 0);
  std::array<uint64_t, 2 * kLimbs> product{};
  for (size_t i = 0; i < kLimbs; ++i) {
    uint64_t carry = 0;
    for (size_t start = 0; start < kLimbs; start += kUnrolled) {
      for (size_t j = start; j < start + kUnrolled; ++j) {
        const Wide128 sum = multiply_add(number[i], factor[j], product[i + j], carry);
        product[i + j] = sum.low;
        carry = sum.high;
      }
    }
    product[i + kLimbs] = carry;
  }
  uint64_t carry = 0;
  for (size_t i = 0; i < kLimbs; ++i) {
    const Wide128 sum = multiply_add(product[kLimbs + i], kBelow, product[i], carry);
    number[i] = sum.low;
    carry = sum.high;
  }
  while (carry) carry = add_small(number, carry * kBelow);  // a carry is at most kBelow, so the product fits
}

// number^(prime - 2), which is the inverse by Fermat's little theorem.
Number invert(const Number& number) {
  Number exponent;
  exponent.fill(~uint64_t{0});
  exponent[0] -= kBelow + 1;
  Number power{1};
  for (size_t bit = kLimbs * 64; bit-- > 0;) {
    multiply_by(power, power);
    if (exponent[bit / 64] >> bit % 64 & 1) multiply_by(power, number);
  }
  return power;
}

uint64_t read_little_endian(const uint8_t* bytes, size_t size) {
  uint64_t value = 0;
  for (size_t i = 0; i < size; ++i) value |= static_cast<uint64_t>(bytes[i]) << 8 * i;
  return value;
}

// The same word of four blocks.
using Words = uint32_t __attribute__((vector_size(16)));

inline Words rotate(Words words, int distance) { return words << distance | words >> (32 - distance); }

inline void quarter_round(Words& a, Words& b, Words& c, Words& d) {
  a += b;
  d = rotate(d ^ a, 16);
  c += d;
  b = rotate(b ^ c, 12);
  a += b;
  d = rotate(d ^ a, 8);
  c += d;
  b = rotate(b ^ c, 7);
}

// The number of a member: six blocks of ChaCha20, of 8 limbs each. Four blocks are made at a time.
Number expand(const uint8_t* key) {
  constexpr uint32_t kStart[] = {0x61707865, 0x3320646e, 0x79622d32, 0x6b206574};  // "expand 32-byte k"
  Number number;
  for (uint32_t first = 0; first < kLimbs / 8; first += 4) {
    Words start[16] = {};
    for (size_t i = 0; i < 4; ++i) start[i] += kStart[i];
    for (size_t i = 0; i < 8; ++i) start[4 + i] += static_cast<uint32_t>(read_little_endian(key + 4 * i, 4));
    start[12] = Words{first, first + 1, first + 2, first + 3};
    Words x[16];
    std::memcpy(x, start, sizeof x);
    for (int round = 0; round < 10; ++round) {
      quarter_round(x[0], x[4], x[8], x[12]);
      quarter_round(x[1], x[5], x[9], x[13]);
      quarter_round(x[2], x[6], x[10], x[14]);
      quarter_round(x[3], x[7], x[11], x[15]);
      quarter_round(x[0], x[5], x[10], x[15]);
      quarter_round(x[1], x[6], x[11], x[12]);
      quarter_round(x[2], x[7], x[8], x[13]);
      quarter_round(x[3], x[4], x[9], x[14]);
    }
    for (size_t i = 0; i < 16; ++i) x[i] += start[i];
    for (size_t lane = 0; lane < 4 && first + lane < kLimbs / 8; ++lane) {
      for (size_t i = 0; i < 8; ++i) {
        number[(first + lane) * 8 + i] = x[2 * i][lane] | static_cast<uint64_t>(x[2 * i + 1][lane]) << 32;
      }
    }
  }
  return number;
}

}  // namespace

MuHash::MuHash() : numerator_{1}, denominator_{1} {}

MuHash::MuHash(const Value& value) : denominator_{1} {
  for (size_t i = 0; i < kLimbs; ++i) numerator_[i] = read_little_endian(value.data() + 8 * i, 8);
}

void MuHash::add(const uint8_t* keys, size_t num_keys) {
  for (size_t i = 0; i < num_keys; ++i) multiply_by(numerator_, expand(keys + i * kKeyBytes));
}

void MuHash::subtract(const uint8_t* keys, size_t num_keys) {
  for (size_t i = 0; i < num_keys; ++i) multiply_by(denominator_, expand(keys + i * kKeyBytes));
  is_divided_ = is_divided_ || num_keys > 0;
}

void MuHash::add(const MuHash& other) {
  multiply_by(numerator_, other.numerator_);
  if (other.is_divided_) multiply_by(denominator_, other.denominator_);
  is_divided_ = is_divided_ || other.is_divided_;
}

void MuHash::subtract(const MuHash& other) {
  const MuHash its = other;  // it may be this one
  multiply_by(denominator_, its.numerator_);
  if (its.is_divided_) multiply_by(numerator_, its.denominator_);
  is_divided_ = true;
}

MuHash::Value MuHash::value() const {
  Number number = numerator_;
  if (is_divided_) multiply_by(number, invert(denominator_));
  Number reduced = number;
  if (add_small(reduced, kBelow)) number = reduced;  // it was the prime or above
  Value value;
  for (size_t i = 0; i < kValueBytes; ++i) value[i] = static_cast<uint8_t>(number[i / 8] >> i % 8 * 8);
  return value;
}

}  // namespace tokcore
