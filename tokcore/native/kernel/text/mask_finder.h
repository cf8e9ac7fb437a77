// DESCRIPTION
// MaskFinder finds the spans of a text that must not be counted: e-mail addresses, keys, cards and so on, as
// tokcore/text/mask_presets.py defines them. One pass: each preset has a trigger, a byte that is rare in text
// ('@', '_', '+', the first of a run of digits, ...), and every other byte costs a look-up in a table. Linear
// time for every input: the bytes that a candidate reads are bounded in number or read by no other.
// Immutable, so thread-safe.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace tokcore {

// In the order of tokcore.text.mask_presets.MASK_PRESETS.
enum class MaskPreset : uint8_t {
  kApiKey,
  kCard,
  kEmail,
  kIban,
  kIpv4,
  kPhone,
  kPrivateKey,
  kUrlCredentials,
};
constexpr size_t kNumMaskPresets = 8;

struct MaskedSpan {
  size_t start;
  size_t end;
  MaskPreset preset;
};

class MaskFinder {
 public:
  // presets: bit i chooses preset i.
  explicit MaskFinder(uint32_t presets);

  // Appends the spans of a text, sorted by start, then preset.
  void find(const uint8_t* text, size_t size, std::vector<MaskedSpan>* spans) const;

 private:
  uint32_t presets_;
  std::array<bool, 256> is_trigger_{};
};

}  // namespace tokcore
