// DESCRIPTION
// What goes into an encoder and what comes out: batches of texts, and their ids.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "encode/id_buffer.h"
#include "text/utf8_writer.h"

namespace tokcore {

struct TextBatch {
  const uint8_t* data;
  size_t data_size;
  const int64_t* offsets;  // num_texts + 1, ascending, within data
  size_t num_texts;
};

// Strings as Python keeps them, each in its own memory.
struct StringBatch {
  const StringView* strings;
  size_t num_texts;
};

// About where each string would begin if they lay side by side as UTF-8; num_texts + 1.
inline std::vector<int64_t> list_about_offsets(const StringBatch& texts) {
  std::vector<int64_t> offsets(texts.num_texts + 1, 0);
  for (size_t i = 0; i < texts.num_texts; ++i)
    offsets[i + 1] = offsets[i] + static_cast<int64_t>(about_utf8_bytes(texts.strings[i]));
  return offsets;
}

// Texts that the caller has cut: ends, absolute in data, of all pre-tokens; those of text i begin at
// firsts[i].
struct Pieces {
  const int64_t* ends;
  size_t num_ends;
  const int64_t* firsts;  // num_texts + 1
};

struct EncodedBatch {
  IdBuffer ids;
  std::vector<int64_t> offsets;    // num_texts + 1
  std::vector<int64_t> pretokens;  // num_texts
};

// Takes the ids of one text, which are the encoder's own until it returns.
using TakeIds = std::function<void(const int32_t* ids, size_t num_ids)>;

enum class EncodeStatus : uint8_t {
  kOk,
  kBadOffsets,    // offsets do not ascend, or leave the data (position: the text)
  kBadPieces,     // a piece is empty, or the pieces do not cover their text exactly (text)
  kPieceTooLong,  // a pre-token is longer than PieceModel::kMaxPieceBytes (text)
  kNoScanner,     // the encoder has no scanner to cut the texts with
  kSurrogate,     // a string has a surrogate, so it is not text (text)
};

struct [[nodiscard]] EncodeResult {
  EncodeStatus status;
  uint64_t position;
};

// Whether the offsets of a batch ascend within its data.
inline EncodeResult check_offsets(const TextBatch& texts) {
  for (size_t i = 0; i <= texts.num_texts; ++i) {
    const int64_t offset = texts.offsets[i];
    if (offset < (i == 0 ? 0 : texts.offsets[i - 1]) || static_cast<uint64_t>(offset) > texts.data_size)
      return {EncodeStatus::kBadOffsets, i};
  }
  return {EncodeStatus::kOk, 0};
}

}  // namespace tokcore
