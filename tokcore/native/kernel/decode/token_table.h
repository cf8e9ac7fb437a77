// DESCRIPTION
// TokenTable turns ids into text: the bytes of all tokens back to back, and where those of each id begin. It
// takes four bytes an id besides the bytes. Where ids are few and far between, they are looked up by
// bisection and take four more. Immutable once made, so threads may share it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tokcore {

// What a token does at an end of a text, in bits.
enum TokenFlag : uint8_t {
  kMarked = 1,  // its first byte is left out where a text begins
  kSilent = 2,  // it has no bytes, and what comes next still begins the text
  kEnds = 4,    // its last byte is left out where a text ends
};

class TokenTable {
 public:
  static constexpr size_t kAllKnown = SIZE_MAX;

  // Token i has ids[i], none negative, and the bytes data[offsets[i]] to data[offsets[i + 1]]; of equal ids
  // the last counts. flags: bits of TokenFlag, one byte for each. drops_all: whether a text loses the first
  // bytes of marked tokens until something is left, and not only of one. Throws std::length_error for 2**28
  // bytes.
  TokenTable(const int32_t* ids, size_t num, const uint8_t* data, const int64_t* offsets,
             const uint8_t* flags, bool drops_all);

  // One more than the largest id.
  int64_t end() const { return end_; }
  size_t size_bytes() const;

  // The place of the first id that is no token, else kAllKnown; size gets the sum of all tokens' bytes.
  size_t measure(const int32_t* ids, size_t num, size_t* size) const;

  // How many bytes a text of known ids loses where it begins, and where it ends.
  size_t head(const int32_t* ids, size_t num) const;
  size_t tail(const int32_t* ids, size_t num) const;

  // The bytes of known ids but the first `skipped`, to out, as many as fit before end.
  void write(const int32_t* ids, size_t num, size_t skipped, uint8_t* out, const uint8_t* end) const;

  struct Span {
    const uint8_t* data;
    size_t size;
  };
  Span spell(int32_t id) const;  // of a known id

 private:
  static constexpr int kOffsetBits = 28;
  static constexpr uint32_t kOffsetMask = (uint32_t{1} << kOffsetBits) - 1;
  static constexpr uint32_t kUnused = 8;  // a flag of slots that no token has

  template <bool kIsDense>
  size_t find(int32_t id) const;  // its slot; that of no token if there is none
  template <bool kIsDense>
  size_t measure_as(const int32_t* ids, size_t num, size_t* size) const;
  template <bool kIsDense>
  void write_as(const int32_t* ids, size_t num, size_t skipped, uint8_t* out, const uint8_t* end) const;
  size_t find_any(int32_t id) const { return ids_.empty() ? find<true>(id) : find<false>(id); }
  uint32_t flags(size_t slot) const { return words_[slot] >> kOffsetBits; }
  uint32_t begin(size_t slot) const { return words_[slot] & kOffsetMask; }
  size_t length(size_t slot) const { return begin(slot + 1) - begin(slot); }

  std::vector<uint32_t> words_;  // flags and offset of each slot; one more is of no token, and one ends it
  std::vector<int32_t> ids_;     // of slots, ascending; empty if slots are ids
  std::vector<uint8_t> data_;    // with room for a wide load at the end
  int64_t end_ = 0;
  bool drops_all_;
};

}  // namespace tokcore
