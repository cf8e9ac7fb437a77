// DESCRIPTION
// PieceNormalizer does to a text what a SentencePiece model does before it looks for pieces: it replaces
// characters by the model's table, makes blanks U+2581, takes extra ones away and adds one at an end. Pieces
// that users defined stay as they are. A byte outside of well-formed UTF-8 becomes U+FFFD. Linear in the
// length of the text. Thread-safe once built.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "sentencepiece/charsmap.h"
#include "sentencepiece/piece_trie.h"

namespace tokcore {

// A buffer that grows. After its bytes it has room that readers of whole blocks may read.
class PaddedBytes {
 public:
  static constexpr size_t kPadding = 64;

  void clear() { used_ = 0; }
  // Frees the memory if there is more than that.
  void trim(size_t size) {
    used_ = 0;
    if (bytes_.size() > size) bytes_ = {};
  }
  void reserve_more(size_t size) {
    if (bytes_.size() < used_ + size + kPadding)
      bytes_.resize(used_ + size + kPadding > 2 * bytes_.size() ? used_ + size + kPadding
                                                                : 2 * bytes_.size());
  }
  const uint8_t* data() const { return bytes_.data(); }
  uint8_t* end() { return bytes_.data() + used_; }
  void set_end(const uint8_t* end) { used_ = static_cast<size_t>(end - bytes_.data()); }
  size_t size() const { return used_; }
  void set_size(size_t size) { used_ = size; }

 private:
  std::vector<uint8_t> bytes_;
  size_t used_ = 0;
};

struct NormalizerRules {
  const uint8_t* charsmap;
  size_t charsmap_size;
  bool add_dummy_prefix;
  bool remove_extra_whitespaces;
  bool escape_whitespaces;
  bool whitespace_is_suffix;
};

class PieceNormalizer {
 public:
  // user_defined: of the pieces that stay as they are; it must live as long. False if the charsmap is none.
  bool build(const NormalizerRules& rules, const PieceTrie& user_defined);

  // Appends the normalized text. Throws std::bad_alloc.
  void normalize(const uint8_t* text, size_t size, PaddedBytes* out) const {
    (void)normalize_from(text, size, 0, false, out);
  }

  // Whether plain_word() may find anything: blanks and printable ASCII become U+2581 and themselves.
  bool has_plain_words() const {
    return printable_stays_ && space_is_plain_ && rules_.escape_whitespaces && !rules_.whitespace_is_suffix;
  }
  // If text begins with a blank, then characters that stay as they are, and another blank: the bytes before
  // that one, else 0. Behind what is no blank, they become U+2581 and themselves, whatever follows. Of words
  // beyond kMaxWord bytes, and of what has fewer than kAfterWord bytes after it, nothing is said.
  size_t plain_word(const uint8_t* text, size_t size) const;
  static constexpr size_t kMaxWord = 128;
  static constexpr size_t kAfterWord = 16;
  // Appends the normalized text from `begin` on, which is 0 or a blank behind what is no blank, to the end;
  // if it stops, up to the next plain word behind what becomes no blank. Returns where it stopped.
  size_t normalize_from(const uint8_t* text, size_t size, size_t begin, bool stops, PaddedBytes* out) const;

  // A text may begin with many user-defined pieces. The longest of the first kMaxUserDefined counts.
  static constexpr size_t kMaxUserDefined = 64;

 private:
  class Writer;

  // Where a text begins: how many bytes of it become what.
  struct Step {
    size_t size;
    const uint8_t* text;
    size_t text_size;
  };
  Step step(const uint8_t* text, size_t size) const;
  // Copies characters that stay as they are, blanks not among them, from `begin` on, up to the first other
  // one or to `end`. There is room for 16 bytes more. Returns where it stopped.
  size_t copy_staying(const uint8_t* text, size_t size, size_t begin, size_t end, uint8_t** out) const;
  size_t staying_bytes(const uint8_t* text, size_t size) const;
  void find_staying();
  bool is_plain(uint8_t byte, uint8_t next) const { return (plain_[byte][next / 64] >> next % 64 & 1) != 0; }

  NormalizerRules rules_{};
  Charsmap charsmap_;
  const PieceTrie* user_defined_ = nullptr;
  bool begins_user_defined_[256] = {};
  uint64_t plain_[128][4] = {};   // an ASCII character stays as it is before that byte
  bool printable_stays_ = false;  // all of ASCII from ! to ~ does, before ASCII
  bool space_is_plain_ = false;   // nothing that is replaced or kept begins with one
  // Of the characters up to U+FFFF outside of ASCII, but for U+2581: whether they stay as they are before any
  // byte, or before a byte that is not in goes_on_.
  std::vector<uint64_t> always_stay_, mostly_stay_;
  bool goes_on_[256] = {};
};

}  // namespace tokcore
