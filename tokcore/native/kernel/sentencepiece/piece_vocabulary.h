// DESCRIPTION
// PieceVocabulary is what a SentencePiece model knows: pieces with scores, and what unknown text becomes.
// Tokens are numbered: first the pieces, then the unknown token, then the 256 byte tokens.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "encode/bpe_model.h"

namespace tokcore {

// By SentencePiece's numbers; the other types match no text.
enum class PieceType : uint8_t { kNormal = 1, kUserDefined = 4, kUnused = 5 };

// A vocabulary as a caller has it. Its pointers are only read while a model is built.
struct PieceList {
  const uint8_t* data;
  size_t data_size;
  const int64_t* offsets;  // num_pieces + 1
  size_t num_pieces;
  const int32_t* ids;
  const double* scores;  // finite; SentencePiece rounds them to float32
  const uint8_t* types;
  int32_t unknown_id;       // -1: none, if there are byte ids
  const int32_t* byte_ids;  // 256, or nullptr: unknown text is not spelled in bytes
};

class PieceVocabulary {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;

  VocabularyResult build(const PieceList& list);

  size_t num_pieces() const { return types_.size(); }
  std::string_view text(uint32_t piece) const {
    return {reinterpret_cast<const char*>(bytes_.data()) + starts_[piece],
            starts_[piece + 1] - starts_[piece]};
  }
  double exact_score(uint32_t piece) const { return scores_[piece]; }
  float score(uint32_t piece) const { return static_cast<float>(scores_[piece]); }
  bool is(uint32_t piece, PieceType type) const { return types_[piece] == static_cast<uint8_t>(type); }
  const uint8_t* bytes() const { return bytes_.data(); }
  const uint64_t* starts() const { return starts_.data(); }

  uint32_t unknown() const { return static_cast<uint32_t>(types_.size()); }
  bool has_bytes() const { return has_bytes_; }
  uint32_t byte(uint8_t value) const { return static_cast<uint32_t>(types_.size()) + 1 + value; }

  const int32_t* ids() const { return ids_.data(); }  // by number

 private:
  std::vector<uint8_t> bytes_;
  std::vector<uint64_t> starts_;
  std::vector<double> scores_;
  std::vector<uint8_t> types_;
  std::vector<int32_t> ids_;
  bool has_bytes_ = false;
};

// How many bytes the character at text has, by its first byte; of text that is not UTF-8 what is left at
// most.
inline size_t character_bytes(const uint8_t* text, size_t size) {
  constexpr uint8_t kBytes[16] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 3, 4};
  const size_t wanted = kBytes[*text >> 4];
  return wanted < size ? wanted : size;
}

// Writes the numbers of a text's tokens; unknown text next to unknown text is one token.
class NumberWriter {
 public:
  NumberWriter(const PieceVocabulary& vocabulary, uint32_t* out)
      : vocabulary_(vocabulary), begin_(out), out_(out) {}

  void put(uint32_t piece) { *out_++ = piece; }
  void put_unknown(const uint8_t* text, size_t size) {
    if (vocabulary_.has_bytes()) {
      for (size_t i = 0; i < size; ++i) *out_++ = vocabulary_.byte(text[i]);
    } else if (out_ == begin_ || out_[-1] != vocabulary_.unknown()) {
      *out_++ = vocabulary_.unknown();
    }
  }
  size_t count() const { return static_cast<size_t>(out_ - begin_); }

 private:
  const PieceVocabulary& vocabulary_;
  uint32_t* begin_;
  uint32_t* out_;
};

}  // namespace tokcore
