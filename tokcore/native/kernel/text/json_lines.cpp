#include "text/json_lines.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "memory/hash.h"

namespace tokcore {
namespace {

constexpr uint64_t kOnes = 0x0101010101010101u;
constexpr uint64_t kHighBits = 0x80 * kOnes;

// A larger buffer, grown for one huge line, is freed.
constexpr size_t kKeptBytes = size_t{1} << 23;

// Numbers of at most this many digits are the same integer, and finite, for every reader.
constexpr ptrdiff_t kMaxIdDigits = 18;
constexpr ptrdiff_t kMaxNumberBytes = 100;

// Bytes that are checked together, with the vector instructions that every processor of the platform has.
using Block = uint8_t __attribute__((vector_size(16)));
constexpr ptrdiff_t kBlock = sizeof(Block);

bool is_zero(const Block& block) {
  uint64_t words[kBlock / 8];
  std::memcpy(words, &block, kBlock);
  return (words[0] | words[1]) == 0;
}

// The number of plain characters at the start of a block.
size_t plain_bytes(const Block& block) {
  const auto special = (block == '"') | (block == '\\') | (block < 0x20);
  uint64_t words[kBlock / 8];
  std::memcpy(words, &special, kBlock);
  size_t i = 0;
  while (i < kBlock / 8 && words[i] == 0) ++i;
  return i == kBlock / 8 ? kBlock
                         : 8 * i + static_cast<size_t>(std::countr_zero(little_endian(words[i]))) / 8;
}

bool is_space(uint8_t byte) { return byte == ' ' || byte == '\t' || byte == '\r'; }

bool is_digit(uint8_t byte) { return byte >= '0' && byte <= '9'; }

int hex_digit(uint8_t byte) {
  if (is_digit(byte)) return byte - '0';
  const uint8_t lower = byte | 0x20;
  return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

size_t put_character(uint32_t code, uint8_t* out) {
  if (code < 0x80) {
    out[0] = static_cast<uint8_t>(code);
    return 1;
  }
  if (code < 0x800) {
    out[0] = static_cast<uint8_t>(0xC0 | code >> 6);
    out[1] = static_cast<uint8_t>(0x80 | (code & 0x3F));
    return 2;
  }
  if (code < 0x10000) {
    out[0] = static_cast<uint8_t>(0xE0 | code >> 12);
    out[1] = static_cast<uint8_t>(0x80 | (code >> 6 & 0x3F));
    out[2] = static_cast<uint8_t>(0x80 | (code & 0x3F));
    return 3;
  }
  out[0] = static_cast<uint8_t>(0xF0 | code >> 18);
  out[1] = static_cast<uint8_t>(0x80 | (code >> 12 & 0x3F));
  out[2] = static_cast<uint8_t>(0x80 | (code >> 6 & 0x3F));
  out[3] = static_cast<uint8_t>(0x80 | (code & 0x3F));
  return 4;
}

// Whether all bytes are what Python's bytes.strip() removes.
bool is_blank(const uint8_t* p, const uint8_t* end) {
  return std::all_of(p, end, [](uint8_t byte) { return byte == ' ' || (byte >= 9 && byte <= 13); });
}

bool continues(uint8_t byte) { return (byte & 0xC0) == 0x80; }

bool is_utf8_by_characters(const uint8_t* p, const uint8_t* end) {
  while (p < end) {
    if (end - p >= 8) {
      uint64_t word;
      std::memcpy(&word, p, 8);
      const uint64_t high = little_endian(word) & kHighBits;
      if (high == 0) {
        p += 8;
        continue;
      }
      p += std::countr_zero(high) >> 3;
    }
    // Characters of other scripts come in long runs, with single ASCII characters between them.
    while (p < end) {
      const uint8_t first = *p;
      const ptrdiff_t left = end - p;
      if (first < 0x80) {
        ++p;
        if (left > 1 && p[0] < 0x80) break;
      } else if (first >= 0xE1 && first <= 0xEC) {
        if (left < 3 || !continues(p[1]) || !continues(p[2])) return false;
        p += 3;
      } else if (first >= 0xC2 && first <= 0xDF) {
        if (left < 2 || !continues(p[1])) return false;
        p += 2;
      } else if (first >= 0xE0 && first <= 0xEF) {
        const uint8_t low = first == 0xE0 ? 0xA0 : 0x80, high = first == 0xED ? 0x9F : 0xBF;
        if (left < 3 || p[1] < low || p[1] > high || !continues(p[2])) return false;
        p += 3;
      } else if (first >= 0xF0 && first <= 0xF4) {
        const uint8_t low = first == 0xF0 ? 0x90 : 0x80, high = first == 0xF4 ? 0x8F : 0xBF;
        if (left < 4 || p[1] < low || p[1] > high || !continues(p[2]) || !continues(p[3])) return false;
        p += 4;
      } else {
        return false;
      }
    }
  }
  return true;
}

bool contains(const uint8_t* data, size_t size, const std::string& part) {
  return std::string_view(reinterpret_cast<const char*>(data), size).find(part) != std::string_view::npos;
}

}  // namespace

bool is_utf8(const uint8_t* start, const uint8_t* end) {
  // A block checks the three bytes before it too, and may end within a character.
  const uint8_t* p = std::min(end, start + 3);
  while (p < end && continues(*p)) ++p;
  if (!is_utf8_by_characters(start, p)) return false;
  if (end - p < kBlock) return is_utf8_by_characters(p, end);
  Block bad{};
  for (; end - p >= kBlock; p += kBlock) {
    Block block;
    std::memcpy(&block, p, kBlock);
    if (is_zero(block & 0x80)) {
      if (p[-1] >= 0xC0 || p[-2] >= 0xE0 || p[-3] >= 0xF0) return false;
      continue;
    }
    Block before, second, third;
    std::memcpy(&before, p - 1, kBlock);
    std::memcpy(&second, p - 2, kBlock);
    std::memcpy(&third, p - 3, kBlock);
    const auto must_continue = (before >= 0xC0) | (second >= 0xE0) | (third >= 0xF0);
    bad |= reinterpret_cast<Block>(
        (must_continue ^ ((block & 0xC0) == 0x80)) | ((block & 0xFE) == 0xC0) | (block >= 0xF5) |
        ((before == 0xE0) & (block < 0xA0)) | ((before == 0xED) & (block >= 0xA0)) |
        ((before == 0xF0) & (block < 0x90)) | ((before == 0xF4) & (block >= 0x90)));
  }
  if (!is_zero(bad)) return false;
  // Go on at the start of the last block's last character, which may not end in that block.
  for (int i = 0; i < 4 && p[-1] >= 0x80; ++i) {
    if (*--p >= 0xC0) break;
  }
  return is_utf8_by_characters(p, end);
}

// Reads one line. Every function goes on from p_, and returns false to refuse the line.
class JsonLines::Line {
 public:
  Line(const std::vector<WantedField>& wanted, const uint8_t* start, const uint8_t* limit)
      : wanted_(wanted), p_(start), limit_(limit) {}

  // A wanted field. start: its place in values.
  struct Field {
    bool is_there = false;
    size_t start = 0;
    size_t size = 0;
  };
  Field fields[kNumFields + kMostValues];

  // Reads the whole line with its line feed. text has room for the rest of the range.
  bool read(uint8_t* text, std::string* values) {
    skip_spaces();
    if (!take('{') || !read_object(0, (1u << wanted_.size()) - 1, text, values)) return false;
    skip_spaces();
    return p_ == limit_ || take('\n');
  }

  const uint8_t* position() const { return p_; }

 private:
  // Reads an object, from after its brace. inside: a bit for each wanted field whose path leads to this
  // object in `depth` steps.
  bool read_object(size_t depth, unsigned inside, uint8_t* text, std::string* values) {
    if (depth == kMaxDepth) return false;
    unsigned entered = 0;
    skip_spaces();
    if (take('}')) return true;
    while (true) {
      std::string_view name;
      if (!read_name(&name)) return false;
      unsigned leaves = 0, inner = 0;
      for (size_t i = 0; i < wanted_.size(); ++i) {
        const WantedField& wanted = wanted_[i];
        if ((inside >> i & 1) == 0 || wanted.path.empty()) continue;
        // A field whose own name has dots takes precedence over the path that the name looks like.
        if (depth == 0 && wanted.path.size() > 1 && name == wanted.name) return false;
        if (name == wanted.path[depth]) (depth + 1 == wanted.path.size() ? leaves : inner) |= 1u << i;
      }
      if (leaves == 0 && inner == 0) {
        if (!skip_value()) return false;
      } else if (leaves == 0) {
        if ((entered & inner) != 0 || !take('{') || !read_object(depth + 1, inner, text, values))
          return false;
        entered |= inner;
      } else if (inner != 0 || !std::has_single_bit(leaves) ||
                 !read_field(static_cast<size_t>(std::countr_zero(leaves)), text, values)) {
        return false;
      }
      skip_spaces();
      if (take('}')) return true;
      if (!take(',')) return false;
      skip_spaces();
    }
  }

  bool read_field(size_t which, uint8_t* text, std::string* values) {
    Field& field = fields[which];
    if (field.is_there) return false;
    field.is_there = true;
    const bool is_text = which == kText, is_id = which == kId;
    if (is_text) return take('"') && read_string(text, &field.size);
    const size_t start = field.start = values->size();
    if (which >= kNumFields) {
      const uint8_t* value = p_;
      if (!skip_value()) return false;
      values->append(value, p_);
      field.size = static_cast<size_t>(p_ - value);
      return true;
    }
    if (take('"')) {
      const uint8_t* quote = p_;
      if (!skip_string()) return false;
      values->resize(start + static_cast<size_t>(p_ - quote) + kBlock);
      p_ = quote;
      if (!read_string(reinterpret_cast<uint8_t*>(values->data()) + start, &field.size)) return false;
      values->resize(start + field.size);
      return true;
    }
    if (!is_id) return false;
    const uint8_t* number = p_;
    take('-');
    const uint8_t* digits = p_;
    while (p_ < limit_ && is_digit(*p_)) ++p_;
    // No leading zeros, and no "-0", which readers write in different ways.
    if (p_ == digits || p_ - digits > kMaxIdDigits || (*digits == '0' && p_ - number > 1)) return false;
    if (p_ < limit_ && (*p_ == '.' || *p_ == 'e' || *p_ == 'E')) return false;
    values->append(number, p_);
    field.size = static_cast<size_t>(p_ - number);
    return true;
  }

  void skip_spaces() {
    while (p_ < limit_ && is_space(*p_)) ++p_;
  }

  bool take(uint8_t byte) {
    if (p_ == limit_ || *p_ != byte) return false;
    ++p_;
    return true;
  }

  bool read_name(std::string_view* name) {
    if (!take('"')) return false;
    const uint8_t* start = p_;
    if (!skip_plain() || *p_ != '"') return false;
    *name = {reinterpret_cast<const char*>(start), static_cast<size_t>(p_ - start)};
    ++p_;
    skip_spaces();
    if (!take(':')) return false;
    skip_spaces();
    return true;
  }

  // Goes to the next quote or backslash; false at a control character, at the end, or if the bytes before are
  // not UTF-8.
  bool skip_plain() {
    const uint8_t* start = p_;
    Block seen{};
    p_ += pass_plain(&seen, nullptr);
    if (p_ >= limit_ || *p_ < 0x20) return false;
    return is_zero(seen & 0x80) || is_utf8(start, p_);
  }

  // Returns the number of plain characters from here on. Copies them to out, unless it is nullptr, and up to
  // kBlock bytes after them. Adds at least their bits to seen.
  size_t pass_plain(Block* seen, uint8_t* out) const {
    const uint8_t* p = p_;
    while (limit_ - p >= kBlock) {
      Block block;
      std::memcpy(&block, p, kBlock);
      if (out != nullptr) std::memcpy(out + (p - p_), &block, kBlock);
      *seen |= block;
      const size_t plain = plain_bytes(block);
      p += plain;
      if (plain < kBlock) return static_cast<size_t>(p - p_);
    }
    for (; p < limit_ && *p != '"' && *p != '\\' && *p >= 0x20; ++p) {
      (*seen)[0] |= *p;
      if (out != nullptr) out[p - p_] = *p;
    }
    return static_cast<size_t>(p - p_);
  }

  // Reads and unescapes a string, from after its opening quote; may write up to kBlock bytes after its end.
  bool read_string(uint8_t* out, size_t* size) {
    uint8_t* const begin = out;
    const uint8_t* const start = p_;
    Block seen{};
    while (true) {
      const size_t plain = pass_plain(&seen, out);
      p_ += plain;
      out += plain;
      if (p_ >= limit_) return false;
      const uint8_t byte = *p_++;
      if (byte == '"') break;
      if (byte != '\\') return false;
      const size_t length = read_escape(out);
      if (length == 0) return false;
      out += length;
    }
    *size = static_cast<size_t>(out - begin);
    // No escape divides a character: the line's bytes are UTF-8 exactly if the string's are.
    return is_zero(seen & 0x80) || is_utf8(start, p_);
  }

  bool skip_string() {
    uint8_t ignored[4];
    while (true) {
      if (!skip_plain()) return false;
      if (*p_++ == '"') return true;
      if (read_escape(ignored) == 0) return false;
    }
  }

  // Reads an escape, from after its backslash. Returns the number of bytes written; 0 to refuse the line.
  size_t read_escape(uint8_t* out) {
    if (p_ == limit_) return 0;
    switch (*p_++) {
      case '"':
        *out = '"';
        return 1;
      case '\\':
        *out = '\\';
        return 1;
      case '/':
        *out = '/';
        return 1;
      case 'b':
        *out = '\b';
        return 1;
      case 'f':
        *out = '\f';
        return 1;
      case 'n':
        *out = '\n';
        return 1;
      case 'r':
        *out = '\r';
        return 1;
      case 't':
        *out = '\t';
        return 1;
      case 'u':
        break;
      default:
        return 0;
    }
    int32_t code = read_code();
    if (code < 0 || (code >= 0xDC00 && code <= 0xDFFF)) return 0;
    if (code >= 0xD800 && code <= 0xDBFF) {
      if (!take('\\') || !take('u')) return 0;
      const int32_t low = read_code();
      if (low < 0xDC00 || low > 0xDFFF) return 0;
      code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
    }
    return put_character(static_cast<uint32_t>(code), out);
  }

  int32_t read_code() {
    if (limit_ - p_ < 4) return -1;
    int32_t code = 0;
    for (int i = 0; i < 4; ++i) {
      const int digit = hex_digit(*p_++);
      if (digit < 0) return -1;
      code = code << 4 | digit;
    }
    return code;
  }

  // Checks a value of any type and skips it.
  bool skip_value() {
    bool is_object[kMaxDepth];
    size_t depth = 0;
    while (true) {
      if (p_ == limit_) return false;
      const uint8_t byte = *p_;
      bool opened = false;
      if (byte == '{' || byte == '[') {
        ++p_;
        if (depth == kMaxDepth) return false;
        is_object[depth++] = byte == '{';
        skip_spaces();
        opened = !take(byte == '{' ? '}' : ']');
        if (!opened) --depth;
      } else if (byte == '"') {
        ++p_;
        if (!skip_string()) return false;
      } else if (!skip_word()) {
        return false;
      }
      // After a value: close all that ends here, then go to the next value.
      while (!opened) {
        if (depth == 0) return true;
        skip_spaces();
        if (take(',')) {
          skip_spaces();
          break;
        }
        if (!take(is_object[depth - 1] ? '}' : ']')) return false;
        --depth;
      }
      if (is_object[depth - 1] && !skip_name()) return false;
    }
  }

  bool skip_name() {
    if (!take('"') || !skip_string()) return false;
    skip_spaces();
    if (!take(':')) return false;
    skip_spaces();
    return true;
  }

  bool skip_word() {
    switch (*p_) {
      case 't':
        return skip_literal("true");
      case 'f':
        return skip_literal("false");
      case 'n':
        return skip_literal("null");
      default:
        return skip_number();
    }
  }

  bool skip_literal(std::string_view literal) {
    const size_t size = literal.size();
    if (static_cast<size_t>(limit_ - p_) < size || std::memcmp(p_, literal.data(), size) != 0) return false;
    p_ += size;
    return true;
  }

  bool skip_number() {
    const uint8_t* start = p_;
    take('-');
    const uint8_t* digits = p_;
    if (!skip_digits() || (*digits == '0' && p_ - digits > 1)) return false;
    if (take('.') && !skip_digits()) return false;
    if (take('e') || take('E')) {
      if (!take('-')) take('+');
      const uint8_t* exponent = p_;
      if (!skip_digits() || p_ - exponent > 2) return false;
    }
    return p_ - start <= kMaxNumberBytes;
  }

  bool skip_digits() {
    const uint8_t* start = p_;
    while (p_ < limit_ && is_digit(*p_)) ++p_;
    return p_ > start;
  }

  const std::vector<WantedField>& wanted_;
  const uint8_t* p_;
  const uint8_t* const limit_;
};

JsonLines::JsonLines(JsonLineSettings settings) : settings_(std::move(settings)) {
  std::vector<const std::string*> names = {&settings_.text, &settings_.id, &settings_.lang};
  for (const std::string& value : settings_.values) names.push_back(&value);
  wanted_.resize(names.size());
  for (size_t i = 0; i < names.size(); ++i) {
    if (names[i]->empty()) continue;
    wanted_[i].name = *names[i];
    for (size_t start = 0, end = 0; end != std::string::npos; start = end + 1) {
      end = names[i]->find('.', start);
      wanted_[i].path.push_back(names[i]->substr(start, end == std::string::npos ? end : end - start));
    }
  }
}

int32_t JsonLines::know_lang(std::string_view lang) {
  const auto next = static_cast<int32_t>(lang_codes_.size());
  return lang_codes_.emplace(lang, next).first->second;
}

JsonLinesResult JsonLines::read(const uint8_t* data, size_t start, size_t end, size_t max_bytes,
                                size_t max_documents, JsonDocuments* out) {
  *out = {};
  // No text is longer than its line; kBlock more, because strings are written a block at a time.
  texts_.resize(end - start + kBlock);
  size_t size = 0;
  JsonLinesResult result{start, false, end};
  const uint8_t *p = data + start, *const limit = data + end;
  while (p < limit && size < max_bytes && out->text_offsets.size() <= max_documents) {
    Line line(wanted_, p, limit);
    values_.clear();
    if (line.read(texts_.data() + size, &values_) && accept(line, texts_.data() + size, out)) {
      size += line.fields[kText].size;
      out->text_offsets.push_back(static_cast<int64_t>(size));
      p = line.position();
      continue;
    }
    const auto* feed = static_cast<const uint8_t*>(std::memchr(p, '\n', static_cast<size_t>(limit - p)));
    const uint8_t* line_end = feed != nullptr ? feed : limit;
    if (!is_blank(p, line_end)) {
      result.refused = true;
      result.line_end = static_cast<size_t>(line_end - data);
      break;
    }
    p = feed != nullptr ? feed + 1 : limit;
  }
  result.position = static_cast<size_t>(p - data);
  out->texts.assign(texts_.begin(), texts_.begin() + static_cast<ptrdiff_t>(size));
  if (texts_.size() > kKeptBytes) std::vector<uint8_t>().swap(texts_);
  return result;
}

bool JsonLines::accept(const Line& line, const uint8_t* text, JsonDocuments* out) {
  const Line::Field &id = line.fields[kId], &lang = line.fields[kLang];
  const size_t text_size = line.fields[kText].size;
  if (!line.fields[kText].is_there || text_size > settings_.max_text_bytes) return false;
  for (const std::string& forbidden : settings_.forbidden) {
    if (contains(text, text_size, forbidden)) return false;
  }
  if (!settings_.id.empty() && (!id.is_there || id.size > settings_.max_id_bytes)) return false;
  if (!settings_.lang.empty()) {
    if (!lang.is_there) return false;
    const auto known =
        lang_codes_.find({values_.begin() + lang.start, values_.begin() + lang.start + lang.size});
    if (known == lang_codes_.end()) return false;
    out->langs.push_back(known->second);
  }
  out->ids.insert(out->ids.end(), values_.begin() + id.start, values_.begin() + id.start + id.size);
  out->id_offsets.push_back(static_cast<int64_t>(out->ids.size()));
  for (size_t i = kNumFields; i < wanted_.size(); ++i) {
    const Line::Field& value = line.fields[i];
    const std::string_view spelled =
        value.is_there ? std::string_view(values_).substr(value.start, value.size) : "null";
    out->values.push_back(i == kNumFields ? '[' : ',');
    out->values.insert(out->values.end(), spelled.begin(), spelled.end());
  }
  if (wanted_.size() > kNumFields) out->values.insert(out->values.end(), {']', ','});
  return true;
}

}  // namespace tokcore
