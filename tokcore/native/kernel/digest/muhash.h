// DESCRIPTION
// MuHash is the hash of a multiset: MuHash3072 as Bitcoin Core specifies it. Each member stands for a number
// modulo the prime 2^3072 - 1103717, and the hash is the product of the numbers. So the order of members does
// not matter, hashes of parts can be multiplied, and members can be divided out again. A member that is there
// twice counts twice. To find two multisets of equal hash is as hard as discrete logarithms are.
// A member is given by its key, the sha256 of its bytes. Its number is the first 384 bytes of the keystream
// that ChaCha20 makes of the key, with nonce and counter 0, little-endian.
// A member costs about 3 us. Equal results on every processor. Not thread-safe.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace tokcore {

class MuHash {
 public:
  static constexpr size_t kKeyBytes = 32;
  static constexpr size_t kValueBytes = 384;
  using Value = std::array<uint8_t, kValueBytes>;
  using Number = std::array<uint64_t, kValueBytes / 8>;  // lowest limb first; may be the prime or above

  // Of no members.
  MuHash();
  // Whose value() is given. A number that is not below the prime is reduced.
  explicit MuHash(const Value& value);

  // Adds members, or takes them away. keys: kKeyBytes each, back to back.
  void add(const uint8_t* keys, size_t num_keys);
  void subtract(const uint8_t* keys, size_t num_keys);

  // Adds all members of another hash, or takes them away.
  void add(const MuHash& other);
  void subtract(const MuHash& other);

  // The number, below the prime, little-endian. Takes 20 ms if anything was taken away.
  Value value() const;

 private:
  Number numerator_;
  Number denominator_;
  bool is_divided_ = false;  // if not, the denominator is 1
};

}  // namespace tokcore
