// DESCRIPTION
// JsonLines reads documents from JSON lines. Each line is an object; its text, id and language are returned
// with their escapes resolved, all texts in one buffer; further values as JSON. Other fields are checked but
// not stored: an accepted line is JSON (RFC 8259) in well-formed UTF-8, and every other reader finds the same
// values in it.
//
// It reads plain lines only and refuses everything that is wrong or rare: what is not JSON or not an object,
// a wanted field that is missing, there twice or of another type, an unknown language, escapes in field
// names, halves of surrogate pairs, nesting deeper than kMaxDepth, numbers of many digits, texts and ids over
// their limits, texts that hold a forbidden text. A caller who gives refused lines to a slower reader gets
// the results of that reader for every line.
//
// One linear pass; reads no byte outside of the given range. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace tokcore {

struct JsonLineSettings {
  // Names of fields; id and lang may be empty for none. "a.b" is the field of that name if there is one, else
  // b inside a.
  std::string text;
  std::string id;
  std::string lang;
  std::vector<std::string> forbidden;  // lines whose text holds one of these are refused
  size_t max_text_bytes;
  size_t max_id_bytes;
  std::vector<std::string> values;  // further fields, named as the others; at most JsonLines::kMostValues
};

// Documents in order.
struct JsonDocuments {
  std::vector<uint8_t> texts;
  std::vector<int64_t> text_offsets{0};  // n + 1
  std::vector<uint8_t> ids;              // each a string, or the digits of an integer
  std::vector<int64_t> id_offsets{0};    // n + 1, all 0 if there is no id field
  std::vector<int32_t> langs;            // n codes from know_lang(), or empty if there is no language field
  // Of each document the values of settings.values as a JSON array, null for one that is missing, and a
  // comma.
  std::vector<uint8_t> values;
};

struct JsonLinesResult {
  size_t position;  // of the next line, or the end
  bool refused;     // whether the next line is refused
  size_t line_end;  // if so, its end, without the line feed
};

class JsonLines {
 public:
  static constexpr size_t kMaxDepth = 64;
  static constexpr size_t kMostValues = 16;

  explicit JsonLines(JsonLineSettings settings);

  // From now on accepts documents of this language. Returns its code: 0, 1, 2 and so on.
  int32_t know_lang(std::string_view lang);

  // Reads the whole lines in data[start, end), the last one with or without its line feed; skips blank lines.
  // Stops after the line that reaches max_bytes of text or max_documents, or before a refused line.
  JsonLinesResult read(const uint8_t* data, size_t start, size_t end, size_t max_bytes, size_t max_documents,
                       JsonDocuments* out);

 private:
  class Line;
  enum : size_t { kText, kId, kLang, kNumFields };

  struct WantedField {
    std::string name;
    std::vector<std::string> path;  // the name, split at its dots; empty if the field is not wanted
  };

  bool accept(const Line& line, const uint8_t* text, JsonDocuments* out);

  JsonLineSettings settings_;
  std::vector<WantedField> wanted_;  // kNumFields, then those of settings.values
  std::unordered_map<std::string, int32_t> lang_codes_;
  std::vector<uint8_t> texts_;  // the texts of this call so far, and room for more
  std::string values_;          // id, language and further values of the current line
};

// Whether bytes are well-formed UTF-8: no surrogates, nothing above U+10FFFF, no overlong forms.
bool is_utf8(const uint8_t* start, const uint8_t* end);

}  // namespace tokcore
