#include "text/vocabulary_json.h"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cstring>
#include <numeric>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "memory/hash.h"

namespace tokcore {
namespace {

constexpr int64_t kIdLimit = int64_t{1} << 31;

// The byte that each of the first 512 characters stands for; -1 if it is none.
constexpr auto kByteOfCharacter = [] {
  std::array<int16_t, 512> bytes{};
  bytes.fill(-1);
  size_t next = 256;
  for (size_t byte = 0; byte < 256; ++byte) {
    const bool is_printed = (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte != 0xAD);
    bytes[is_printed ? byte : next++] = static_cast<int16_t>(byte);
  }
  return bytes;
}();

constexpr std::string_view kBase64 = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
constexpr auto kBase64Values = [] {
  std::array<int8_t, 256> values{};
  values.fill(-1);
  for (size_t i = 0; i < kBase64.size(); ++i)
    values[static_cast<uint8_t>(kBase64[i])] = static_cast<int8_t>(i);
  return values;
}();

// Bytes of a token -> its place. Open addressing; a slot has the first bytes of its token, which are all of
// most, so that a look-up waits for memory once.
class TokenPlaces {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;

  TokenPlaces(const uint8_t* data, const int64_t* offsets, size_t num)
      : data_(data),
        limit_(data + offsets[num]),
        offsets_(offsets),
        num_(num),
        slots_(std::bit_ceil(2 * num + 16), Slot{0, 0, kNone}) {}

  // False if there is such a token.
  bool insert(uint32_t place) {
    const uint8_t* const token = data_ + offsets_[place];
    const size_t size = size_of(place);
    Slot& slot = slots_[find_slot(token, size, limit_)];
    if (slot.place != kNone) return false;
    slot = {first_bytes(token, size, limit_), static_cast<uint32_t>(size), place};
    return true;
  }

  // limit: no byte at or after it is read.
  uint32_t find(const uint8_t* token, size_t size, const uint8_t* limit) const {
    return slots_[find_slot(token, size, limit)].place;
  }

  // The same where the token is most often the one that was found last, or the one after it.
  uint32_t find_next(const uint8_t* token, size_t size, const uint8_t* limit, uint32_t* last) const {
    for (uint32_t place = *last; place < num_ && place <= *last + 1; ++place) {
      if (is_at(place, token, size)) return *last = place;
    }
    const uint32_t found = find(token, size, limit);
    if (found != kNone) *last = found;
    return found;
  }

 private:
  struct Slot {
    uint64_t first;  // bytes
    uint32_t size;
    uint32_t place;
  };

  static uint64_t first_bytes(const uint8_t* token, size_t size, const uint8_t* limit) {
    return load_block(token, std::min<size_t>(size, 8), limit).low;
  }

  size_t size_of(uint32_t place) const { return static_cast<size_t>(offsets_[place + 1] - offsets_[place]); }

  bool is_at(uint32_t place, const uint8_t* token, size_t size) const {
    return size_of(place) == size && (size == 0 || std::memcmp(data_ + offsets_[place], token, size) == 0);
  }

  size_t find_slot(const uint8_t* token, size_t size, const uint8_t* limit) const {
    const uint64_t first = first_bytes(token, size, limit);
    const size_t mask = slots_.size() - 1;
    for (size_t i = hash_bytes(token, size, limit) & mask;; i = (i + 1) & mask) {
      const Slot& slot = slots_[i];
      if (slot.place == kNone) return i;
      if (slot.first == first && slot.size == size && (size <= 8 || is_at(slot.place, token, size))) return i;
    }
  }

  const uint8_t* data_;
  const uint8_t* limit_;
  const int64_t* offsets_;
  size_t num_;
  std::vector<Slot> slots_;
};

class Reader {
 public:
  explicit Reader(const JsonPlace& place)
      : begin_(place.data),
        at_(place.data + std::min(place.begin, place.size)),
        end_(place.data + place.size) {}

  size_t position() const { return static_cast<size_t>(at_ - begin_); }

  bool take(char wanted) {
    if (at_ == end_ || *at_ != wanted) return false;
    ++at_;
    return true;
  }

  void skip_space() {
    while (at_ != end_ && (*at_ == ' ' || *at_ == '\n' || *at_ == '\r' || *at_ == '\t')) ++at_;
  }

  bool take_spaced(char wanted) {
    skip_space();
    return take(wanted);
  }

  // An id as JSON and Python write it: no sign, no leading zero, no fraction.
  bool take_id(int32_t* id) {
    int64_t value = 0;
    const char* const start = at_;
    while (at_ != end_ && *at_ >= '0' && *at_ <= '9' && value < kIdLimit) value = value * 10 + (*at_++ - '0');
    const auto num_digits = at_ - start;
    if (num_digits == 0 || value >= kIdLimit || (num_digits > 1 && *start == '0')) return false;
    *id = static_cast<int32_t>(value);
    return true;
  }

  // The bytes that the characters of a string stand for, added to out. spaces: how often a space stood
  // between them, and where the last one did. False, and the reader stands where it stood, if one stands for
  // none.
  bool take_name(std::string* out, size_t* num_spaces, size_t* space_at) {
    const char* const start = at_;
    const size_t size_before = out->size();
    const auto give_up = [&] {
      at_ = start;
      out->resize(size_before);
      return false;
    };
    if (!take('"')) return false;
    *num_spaces = 0;
    for (;;) {
      if (at_ == end_) return give_up();
      const auto first = static_cast<uint8_t>(*at_);
      uint32_t character = first;
      if (first == '"') {
        ++at_;
        return true;
      }
      if (first == '\\') {
        if (!take_escape(&character)) return give_up();
      } else if (first < 0x80) {
        ++at_;
      } else {
        // Two bytes; longer ones stand for none.
        if (first < 0xC2 || first > 0xDF || end_ - at_ < 2 || (static_cast<uint8_t>(at_[1]) & 0xC0) != 0x80)
          return give_up();
        character = (first & 0x1Fu) << 6 | (static_cast<uint8_t>(at_[1]) & 0x3Fu);
        at_ += 2;
      }
      if (character == ' ') {
        ++*num_spaces;
        *space_at = out->size();
        continue;
      }
      if (character >= kByteOfCharacter.size() || kByteOfCharacter[character] < 0) return give_up();
      out->push_back(static_cast<char>(kByteOfCharacter[character]));
    }
  }

  // A string without escapes, as it is.
  bool take_plain(std::string_view* text) {
    if (!take('"')) return false;
    const char* const start = at_;
    while (at_ != end_ && *at_ != '"' && *at_ != '\\' && static_cast<uint8_t>(*at_) >= 0x20) ++at_;
    *text = {start, static_cast<size_t>(at_ - start)};
    return take('"');
  }

 private:
  // A backslash and what it begins, of the characters that have one name each; others stand for no byte.
  bool take_escape(uint32_t* character) {
    if (end_ - at_ < 2) return false;
    const char kind = at_[1];
    if (kind == '"' || kind == '\\' || kind == '/') {
      *character = static_cast<uint8_t>(kind);
      at_ += 2;
      return true;
    }
    if (kind != 'u' || end_ - at_ < 6) return false;
    const auto [stop, error] = std::from_chars(at_ + 2, at_ + 6, *character, 16);
    if (error != std::errc() || stop != at_ + 6) return false;
    at_ += 6;
    return true;
  }

  const char* begin_;
  const char* at_;
  const char* end_;
};

std::string name_bytes(const std::string& name, bool* is_of_bytes) {
  std::string out;
  *is_of_bytes = true;
  for (size_t i = 0; i < name.size() && *is_of_bytes; ++i) {
    uint32_t character = static_cast<uint8_t>(name[i]);
    if (character >= 0x80) {
      if (character > 0xDF || i + 1 == name.size()) {
        *is_of_bytes = false;
        break;
      }
      character = (character & 0x1Fu) << 6 | (static_cast<uint8_t>(name[++i]) & 0x3Fu);
    }
    *is_of_bytes = character < kByteOfCharacter.size() && kByteOfCharacter[character] >= 0;
    if (*is_of_bytes) out.push_back(static_cast<char>(kByteOfCharacter[character]));
  }
  return out;
}

// The names of which none is a token of the vocabulary: by the bytes that they stand for, or as they are.
struct LeftOut {
  std::unordered_set<std::string> of_bytes;
  std::unordered_set<std::string_view> others;
  size_t longest = 0;

  explicit LeftOut(const std::vector<std::string>& names) {
    for (const std::string& name : names) {
      bool is_of_bytes;
      std::string bytes = name_bytes(name, &is_of_bytes);
      if (!is_of_bytes) {
        others.insert(name);
        continue;
      }
      longest = std::max(longest, bytes.size());
      of_bytes.insert(std::move(bytes));
    }
  }
};

bool read_vocabulary(const JsonPlace& place, const LeftOut& left_out, TokenList* tokens) {
  Reader reader(place);
  if (!reader.take('{')) return false;
  reader.skip_space();
  if (reader.take('}')) return true;
  for (;;) {
    reader.skip_space();
    size_t num_spaces = 0, space_at = 0;
    bool is_token = true;
    if (reader.take_name(&tokens->data, &num_spaces, &space_at)) {
      if (num_spaces != 0) return false;
      const auto begin = static_cast<size_t>(tokens->offsets.back());
      if (const size_t size = tokens->data.size() - begin; size <= left_out.longest)
        is_token = !left_out.of_bytes.contains(tokens->data.substr(begin));
      if (!is_token) tokens->data.resize(begin);
    } else {
      std::string_view name;
      if (!reader.take_plain(&name) || !left_out.others.contains(name)) return false;
      is_token = false;
    }
    int32_t id;
    if (!reader.take_spaced(':')) return false;
    reader.skip_space();
    if (!reader.take_id(&id)) return false;
    if (is_token) {
      tokens->offsets.push_back(static_cast<int64_t>(tokens->data.size()));
      tokens->ids.push_back(id);
    }
    if (reader.take_spaced(',')) continue;
    return reader.take('}');
  }
}

void sort_by_id(TokenList* tokens) {
  if (std::is_sorted(tokens->ids.begin(), tokens->ids.end())) return;
  std::vector<uint32_t> order(tokens->size());
  std::iota(order.begin(), order.end(), uint32_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](uint32_t a, uint32_t b) { return tokens->ids[a] < tokens->ids[b]; });
  TokenList sorted;
  sorted.data.reserve(tokens->data.size());
  for (const uint32_t i : order) {
    sorted.data.append(tokens->data, static_cast<size_t>(tokens->offsets[i]), tokens->token_size(i));
    sorted.offsets.push_back(static_cast<int64_t>(sorted.data.size()));
    sorted.ids.push_back(tokens->ids[i]);
  }
  *tokens = std::move(sorted);
}

void append_id(int32_t id, std::string* out) {
  char digits[12];
  const char* const end = std::to_chars(digits, digits + sizeof(digits), id).ptr;
  out->append(digits, static_cast<size_t>(end - digits));
}

}  // namespace

size_t skip_json(const JsonPlace& place) {
  size_t depth = 0;
  for (size_t i = place.begin; i < place.size; ++i) {
    switch (place.data[i]) {
      case '"':
        for (++i; i < place.size && place.data[i] != '"'; ++i) i += place.data[i] == '\\';
        break;
      case '{':
      case '[':
        ++depth;
        break;
      case '}':
      case ']':
        if (depth-- <= 1) return i + 1;
        break;
      default:
        break;
    }
  }
  return 0;
}

std::optional<NamedBpe> read_named_bpe(const JsonPlace& vocabulary, const JsonPlace& merges,
                                       const std::vector<std::string>& left_out) {
  NamedBpe out;
  TokenList& tokens = out.tokens;
  tokens.data.reserve(1 << 20);
  if (!read_vocabulary(vocabulary, LeftOut(left_out), &tokens)) return std::nullopt;
  sort_by_id(&tokens);
  TokenPlaces places(tokens.token(0), tokens.offsets.data(), tokens.size());
  for (uint32_t i = 0; i < tokens.size(); ++i) {
    if (!places.insert(i)) return std::nullopt;
  }

  Reader reader(merges);
  if (!reader.take('[')) return std::nullopt;
  reader.skip_space();
  if (reader.take(']')) return out;
  std::string joined;
  uint32_t last = 0;
  for (;;) {
    reader.skip_space();
    joined.clear();
    size_t num_spaces = 0, cut = 0, none;
    if (reader.take('[')) {
      reader.skip_space();
      if (!reader.take_name(&joined, &num_spaces, &none) || num_spaces != 0) return std::nullopt;
      cut = joined.size();
      if (!reader.take_spaced(',')) return std::nullopt;
      reader.skip_space();
      if (!reader.take_name(&joined, &num_spaces, &none) || num_spaces != 0) return std::nullopt;
      if (!reader.take_spaced(']')) return std::nullopt;
    } else if (!reader.take_name(&joined, &num_spaces, &cut) || num_spaces != 1) {
      return std::nullopt;
    }
    const auto* const bytes = reinterpret_cast<const uint8_t*>(joined.data());
    const uint8_t* const limit = bytes + joined.size();
    const uint32_t left = places.find(bytes, cut, limit);
    const uint32_t right = places.find(bytes + cut, joined.size() - cut, limit);
    if (left == TokenPlaces::kNone || right == TokenPlaces::kNone ||
        places.find_next(bytes, joined.size(), limit, &last) == TokenPlaces::kNone) {
      return std::nullopt;
    }
    out.merges.push_back(tokens.ids[left]);
    out.merges.push_back(tokens.ids[right]);
    if (reader.take_spaced(',')) continue;
    if (!reader.take(']')) return std::nullopt;
    return out;
  }
}

std::optional<std::vector<int32_t>> read_id_pairs(const JsonPlace& place, size_t* end) {
  Reader reader(place);
  std::vector<int32_t> ids;
  bool is_list = reader.take('[');
  for (bool more = is_list && !reader.take(']'); more; more = reader.take(',')) {
    int32_t left, right;
    is_list = reader.take('[') && reader.take_id(&left) && reader.take(',') && reader.take_id(&right) &&
              reader.take(']');
    if (!is_list) break;
    ids.push_back(left);
    ids.push_back(right);
  }
  if (!is_list || (!ids.empty() && !reader.take(']'))) return std::nullopt;
  *end = reader.position();
  return ids;
}

std::string write_id_pairs(const int32_t* ids, size_t num_pairs) {
  std::string out = "[";
  out.reserve(num_pairs * 15 + 2);
  for (size_t i = 0; i < num_pairs; ++i) {
    out += i == 0 ? "[" : ",[";
    append_id(ids[2 * i], &out);
    out += ',';
    append_id(ids[2 * i + 1], &out);
    out += ']';
  }
  return out + "]";
}

std::optional<TokenList> read_base64_tokens(const JsonPlace& place, size_t* end) {
  Reader reader(place);
  TokenList tokens;
  bool is_list = reader.take('[');
  for (bool more = is_list && !reader.take(']'); more; more = reader.take(',')) {
    std::string_view text;
    int32_t id;
    is_list = reader.take('[') && reader.take_plain(&text) && reader.take(',') && reader.take_id(&id) &&
              reader.take(']') && text.size() % 4 == 0;
    if (!is_list) return std::nullopt;
    for (size_t i = 0; i < text.size(); i += 4) {
      // Padding stands at the end alone, and is of zeros.
      const bool is_last = i + 4 == text.size();
      const size_t num_padded = !is_last || text[i + 3] != '=' ? 0 : text[i + 2] != '=' ? 1 : 2;
      uint32_t bits = 0;
      for (size_t j = 0; j < 4; ++j) {
        const int value = j >= 4 - num_padded ? 0 : kBase64Values[static_cast<uint8_t>(text[i + j])];
        if (value < 0) return std::nullopt;
        bits = bits << 6 | static_cast<uint32_t>(value);
      }
      if ((bits & ((uint32_t{1} << 8 * num_padded) - 1)) != 0) return std::nullopt;
      for (size_t j = 0; j < 3 - num_padded; ++j)
        tokens.data.push_back(static_cast<char>(bits >> (16 - 8 * j)));
    }
    tokens.offsets.push_back(static_cast<int64_t>(tokens.data.size()));
    tokens.ids.push_back(id);
  }
  if (!is_list || (tokens.size() != 0 && !reader.take(']'))) return std::nullopt;
  *end = reader.position();
  return tokens;
}

std::string write_base64_tokens(const uint8_t* data, const int64_t* offsets, const int32_t* ids, size_t num) {
  std::string out = "[";
  for (size_t i = 0; i < num; ++i) {
    out += i == 0 ? "[\"" : ",[\"";
    for (int64_t at = offsets[i]; at < offsets[i + 1]; at += 3) {
      const auto rest = static_cast<size_t>(std::min<int64_t>(3, offsets[i + 1] - at));
      uint32_t bits = 0;
      for (size_t j = 0; j < 3; ++j) bits = bits << 8 | (j < rest ? data[at + static_cast<int64_t>(j)] : 0u);
      for (size_t j = 0; j < 4; ++j) out += j <= rest ? kBase64[bits >> (18 - 6 * j) & 63] : '=';
    }
    out += "\",";
    append_id(ids[i], &out);
    out += ']';
  }
  return out + "]";
}

std::optional<TokenList> join_merges(const uint8_t* bytes, const int32_t* merges, size_t num_merges,
                                     size_t max_token, size_t max_all) {
  TokenList tokens;
  tokens.offsets.reserve(num_merges + 257);
  for (size_t i = 0; i < 256; ++i) {
    tokens.data.push_back(static_cast<char>(bytes[i]));
    tokens.offsets.push_back(static_cast<int64_t>(tokens.data.size()));
  }
  for (size_t i = 0; i < num_merges; ++i) {
    const size_t num_before = 256 + i;
    size_t size = 0;
    for (size_t side = 0; side < 2; ++side) {
      const int32_t part = merges[2 * i + side];
      if (part < 0 || static_cast<size_t>(part) >= num_before) return std::nullopt;
      const auto from = static_cast<size_t>(tokens.offsets[static_cast<size_t>(part)]);
      const auto part_size = static_cast<size_t>(tokens.offsets[static_cast<size_t>(part) + 1]) - from;
      size += part_size;
      if (size > max_token || tokens.data.size() + part_size > max_all) return std::nullopt;
      // Not append(): what it appends is its own.
      const size_t to = tokens.data.size();
      tokens.data.resize(to + part_size);
      std::memcpy(tokens.data.data() + to, tokens.data.data() + from, part_size);
    }
    tokens.offsets.push_back(static_cast<int64_t>(tokens.data.size()));
  }
  return tokens;
}

std::vector<int32_t> join_pairs(const uint8_t* data, const int64_t* offsets, const int32_t* ids,
                                size_t num_tokens, const int32_t* pairs, size_t num_pairs) {
  TokenPlaces places(data, offsets, num_tokens);
  for (uint32_t i = 0; i < num_tokens; ++i) places.insert(i);
  std::vector<int32_t> results(num_pairs, -1);
  std::string joined;
  uint32_t last = 0;
  for (size_t i = 0; i < num_pairs; ++i) {
    joined.clear();
    bool are_tokens = true;
    for (size_t side = 0; side < 2; ++side) {
      // Ids ascend.
      const int32_t id = pairs[2 * i + side];
      const bool is_place = id >= 0 && static_cast<size_t>(id) < num_tokens && ids[id] == id;
      const int32_t* const found = is_place ? ids + id : std::lower_bound(ids, ids + num_tokens, id);
      are_tokens &= found != ids + num_tokens && *found == id;
      if (!are_tokens) break;
      const auto place = found - ids;
      joined.append(reinterpret_cast<const char*>(data) + offsets[place],
                    static_cast<size_t>(offsets[place + 1] - offsets[place]));
    }
    if (!are_tokens) continue;
    const auto* const bytes = reinterpret_cast<const uint8_t*>(joined.data());
    const uint32_t place = places.find_next(bytes, joined.size(), bytes + joined.size(), &last);
    if (place != TokenPlaces::kNone) results[i] = ids[place];
  }
  return results;
}

}  // namespace tokcore
