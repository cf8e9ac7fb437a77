// DESCRIPTION
// BertNormalizer does to texts what tokenizers' BertNormalizer does: it removes control characters, makes
// white space blanks, puts blanks around ideographs and, unless `cased`, decomposes, removes marks and makes
// letters small. A byte outside of well-formed UTF-8 is removed, as is U+FFFD, which other libraries put in
// its place. Linear in the length of the text, but for rows of marks that are out of order, which are sorted.
// One thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace tokcore {

class BertNormalizer {
 public:
  explicit BertNormalizer(bool cased);

  // Appends the normalized text. Throws std::bad_alloc.
  void add(const uint8_t* text, size_t size);

  // Bytes of all that was added.
  size_t size() const { return used_; }

  // All of it, one text after the other. The last call.
  std::vector<uint8_t> take() {
    out_.resize(used_);
    return std::move(out_);
  }

 private:
  struct Table {
    const uint16_t* leaf_of_block;
    const uint16_t (*leaves)[256];

    uint16_t of(uint32_t c) const { return leaves[leaf_of_block[c >> 8]][c & 0xFF]; }
  };
  struct Mark {
    uint16_t order;
    uint32_t code_point;
  };

  // Makes room for what `size` bytes of text and all waiting marks become.
  void reserve(size_t size);
  size_t step(const uint8_t* text, size_t size, size_t position);
  void add_character(uint32_t c, const uint8_t* own, size_t size);
  void add_jamo(uint32_t syllable);
  void add_replacement(uint16_t number);
  void add_mark(uint32_t c, uint16_t order);
  void end_marks();

  void put(uint8_t byte) { out_[used_++] = byte; }
  void put(const uint8_t* bytes, size_t size);

  Table table_;
  std::vector<uint8_t> out_;
  size_t used_ = 0;
  std::vector<Mark> marks_;  // of the row that is not finished
  bool in_order_ = true;
};

}  // namespace tokcore
