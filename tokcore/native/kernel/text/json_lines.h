// DESCRIPTION
// JsonLines takes documents out of JSON lines: of each line, an object, a text, an id and a language, their
// escapes resolved, texts in one buffer. Nothing is built for the other fields, but the whole line is
// checked: what is accepted is JSON (RFC 8259) in well-formed UTF-8, with the values that any other reader
// finds in it.
//
// It reads plain lines only. Whatever is wrong or rare it refuses, and leaves to the caller: what is no JSON
// or no object, a wanted field that is missing, doubled or of another type, an unknown language, escapes in
// names of fields, halves of surrogate pairs, nesting deeper than kMaxDepth, numbers of many digits, texts
// and ids over their limits, texts that hold a forbidden one. So a caller who gives what is refused to a
// slower reader reads every line as that one does.
//
// One pass, linear; reads no byte outside of the given range. One thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace tokcore {

struct JsonLineSettings {
  // Names of fields, of id and lang empty for none; "a.b" is the field of that name if there is one, else b
  // inside a.
  std::string text;
  std::string id;
  std::string lang;
  std::vector<std::string> forbidden;  // a text that holds one of these is refused
  size_t max_text_bytes;
  size_t max_id_bytes;
};

// Documents in order.
struct JsonDocuments {
  std::vector<uint8_t> texts;
  std::vector<int64_t> text_offsets{0};  // n + 1
  std::vector<uint8_t> ids;              // a string, or the digits of an integer
  std::vector<int64_t> id_offsets{0};    // n + 1, all 0 if there is no field for the id
  std::vector<int32_t> langs;  // n codes as know_lang gave them, or none if there is no field for them
};

struct JsonLinesResult {
  size_t position;  // of the line to go on with, or the end
  bool refused;     // whether that line is refused
  size_t line_end;  // then its end, without the line feed
};

class JsonLines {
 public:
  static constexpr size_t kMaxDepth = 64;

  explicit JsonLines(JsonLineSettings settings);

  // From now on documents of this language are accepted; codes are 0, 1, 2 and so on.
  int32_t know_lang(std::string_view lang);

  // Reads the lines in data[start, end), all of them whole, the last one with or without its line feed; blank
  // ones are skipped. Stops behind the line with which max_bytes of text or max_documents are reached, or
  // before one that is refused.
  JsonLinesResult read(const uint8_t* data, size_t start, size_t end, size_t max_bytes, size_t max_documents,
                       JsonDocuments* out);

 private:
  class Line;
  enum : size_t { kText, kId, kLang, kNumFields };

  struct WantedField {
    std::string name;
    std::vector<std::string> path;  // the name, cut at its dots; empty if the field is not wanted
  };

  bool accept(const Line& line, const uint8_t* text, JsonDocuments* out);

  JsonLineSettings settings_;
  std::vector<WantedField> wanted_;  // kNumFields
  std::unordered_map<std::string, int32_t> lang_codes_;
  std::vector<uint8_t> texts_;  // what a call has read so far, and room for what it may read
  std::string values_;          // id and language of the line that is being read
};

// Whether bytes are well-formed UTF-8: no surrogates, nothing above U+10FFFF, no overlong forms.
bool is_utf8(const uint8_t* start, const uint8_t* end);

}  // namespace tokcore
