// DESCRIPTION
// Reads and writes the long lists of tokenizer files as JSON: vocabularies and merges. A reader takes the one
// form that such files have; of any other it says no more than that, and the caller reads the file with a
// JSON parser, which names what is wrong. What it takes is what that parser gives.
//
// Names are those of byte-level vocabularies, a character for each byte (tokcore.text.byte_alphabet).
// Thread-safe; time and memory are in proportion to the text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tokcore {

// A JSON text, and where a value begins in it.
struct JsonPlace {
  const char* data;
  size_t size;
  size_t begin;
};

// The end of the list or object at a place; 0 if it has none. Says nothing of what is in it.
size_t skip_json(const JsonPlace& place);

// Token i is data[offsets[i], offsets[i + 1]).
struct TokenList {
  std::string data;
  std::vector<int64_t> offsets{0};
  std::vector<int32_t> ids;

  size_t size() const { return ids.size(); }
  const uint8_t* token(size_t i) const { return reinterpret_cast<const uint8_t*>(data.data()) + offsets[i]; }
  size_t token_size(size_t i) const { return static_cast<size_t>(offsets[i + 1] - offsets[i]); }
};

struct NamedBpe {
  TokenList tokens;             // by ascending ids; of equal ones in the order of the file
  std::vector<int32_t> merges;  // left and right id of each
};

// A vocabulary {"name": id, ...} of different names, and merges ["left right", ...] or [["left", "right"],
// ...] of its names, each of which makes another one of them. left_out: UTF-8 names that are no tokens of it.
std::optional<NamedBpe> read_named_bpe(const JsonPlace& vocabulary, const JsonPlace& merges,
                                       const std::vector<std::string>& left_out);

// [[1,2],...] in its canonical form: pairs of ids. end: where the list ends.
std::optional<std::vector<int32_t>> read_id_pairs(const JsonPlace& place, size_t* end);
std::string write_id_pairs(const int32_t* ids, size_t num_pairs);

// [["YQ==",97],...] in its canonical form: tokens as base64, and their ids.
std::optional<TokenList> read_base64_tokens(const JsonPlace& place, size_t* end);
// offsets: num + 1.
std::string write_base64_tokens(const uint8_t* data, const int64_t* offsets, const int32_t* ids, size_t num);

// The tokens of merges that were learned: bytes in the order of `bytes`, then what each merge of earlier
// ones makes. Nothing if a merge is not of earlier tokens, or makes more than max_token bytes, or all more
// than max_all.
std::optional<TokenList> join_merges(const uint8_t* bytes, const int32_t* merges, size_t num_merges,
                                     size_t max_token, size_t max_all);

// For each pair of ids the id of the token that their bytes joined are; -1 if one is no token, or they are
// none. offsets: num_tokens + 1.
std::vector<int32_t> join_pairs(const uint8_t* data, const int64_t* offsets, const int32_t* ids,
                                size_t num_tokens, const int32_t* pairs, size_t num_pairs);

}  // namespace tokcore
