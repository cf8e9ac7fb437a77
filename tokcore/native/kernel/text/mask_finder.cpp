#include "text/mask_finder.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <span>
#include <string_view>

namespace tokcore {

namespace {

bool is_digit(uint8_t c) { return c >= '0' && c <= '9'; }
bool is_upper(uint8_t c) { return c >= 'A' && c <= 'Z'; }
bool is_letter(uint8_t c) { return is_upper(c & ~uint8_t{0x20}) && c < 0x80; }
bool is_alnum(uint8_t c) { return is_digit(c) || is_letter(c); }
bool is_upper_alnum(uint8_t c) { return is_digit(c) || is_upper(c); }
bool is_alnum_dash(uint8_t c) { return is_alnum(c) || c == '-'; }
bool is_alnum_underscore(uint8_t c) { return is_alnum(c) || c == '_'; }
bool is_key_byte(uint8_t c) { return is_alnum(c) || c == '-' || c == '_'; }
bool is_upper_alnum_space(uint8_t c) { return is_upper_alnum(c) || c == ' '; }
bool is_mail_user(uint8_t c) {
  return is_alnum(c) || c == '.' || c == '_' || c == '%' || c == '+' || c == '-';
}
bool is_url_user(uint8_t c) {
  return c > 0x20 && c != 0x7F &&
         std::string_view("\"#'/<>?@\\`").find(static_cast<char>(c)) == std::string_view::npos;
}

using Class = bool (*)(uint8_t);

struct KeyPrefix {
  std::string_view text;
  size_t trigger;  // where in text its rarest byte occurs first
  Class rest;
  size_t least;  // the fewest bytes that the rest may have
};

// Sorted by trigger, so that a trigger tries only its own prefixes.
constexpr KeyPrefix kDashPrefixes[] = {
    {"glpat-", 5, is_key_byte, 20},  {"sk-", 2, is_key_byte, 20},     {"xoxa-", 4, is_alnum_dash, 10},
    {"xoxb-", 4, is_alnum_dash, 10}, {"xoxe-", 4, is_alnum_dash, 10}, {"xoxo-", 4, is_alnum_dash, 10},
    {"xoxp-", 4, is_alnum_dash, 10}, {"xoxr-", 4, is_alnum_dash, 10}, {"xoxs-", 4, is_alnum_dash, 10},
};
constexpr KeyPrefix kUnderscorePrefixes[] = {
    {"ghp_", 3, is_alnum, 30},     {"gho_", 3, is_alnum, 30},     {"ghu_", 3, is_alnum, 30},
    {"ghs_", 3, is_alnum, 30},     {"ghr_", 3, is_alnum, 30},     {"github_pat_", 6, is_alnum_underscore, 22},
    {"sk_live_", 2, is_alnum, 16}, {"sk_test_", 2, is_alnum, 16}, {"rk_live_", 2, is_alnum, 16},
    {"rk_test_", 2, is_alnum, 16}, {"hf_", 2, is_alnum, 30},      {"npm_", 3, is_alnum, 36},
};
constexpr KeyPrefix kLetterIPrefixes[] = {
    {"AKIA", 2, is_upper_alnum, 16}, {"ASIA", 2, is_upper_alnum, 16}, {"AIza", 1, is_key_byte, 30}};
constexpr KeyPrefix kLetterJPrefixes[] = {{"eyJ", 2, is_key_byte, 8}};

std::span<const KeyPrefix> key_prefixes(uint8_t trigger) {
  switch (trigger) {
    case '-':
      return kDashPrefixes;
    case '_':
      return kUnderscorePrefixes;
    case 'I':
      return kLetterIPrefixes;
    default:
      return kLetterJPrefixes;
  }
}
constexpr size_t kTokenParts = 3;  // of a JSON web token; also the least bytes of each part

struct IbanLength {
  size_t length;
  std::string_view countries;
};

constexpr IbanLength kIbanLengths[] = {
    {15, "NO"},
    {16, "BE"},
    {18, "DK FI FK FO GL NL SD"},
    {19, "MK SI"},
    {20, "AT BA EE KZ LT LU MN XK"},
    {21, "CH HN HR LI LV"},
    {22, "BG BH CR DE GB GE IE ME RS VA"},
    {23, "AE GI IL IQ OM SO TL"},
    {24, "AD CZ ES MD PK RO SA SE SK TN VG"},
    {25, "LY PT ST"},
    {26, "IS TR"},
    {27, "BI DJ FR GR IT MC MR SM"},
    {28, "AL AZ BY CY DO GT HU LB NI PL SV"},
    {29, "BR EG PS QA UA"},
    {30, "JO KW MU YE"},
    {31, "MT SC"},
    {32, "LC"},
    {33, "RU"},
};

size_t iban_length(std::string_view country) {
  for (const IbanLength& of : kIbanLengths) {
    for (size_t i = 0; i < of.countries.size(); i += 3) {
      if (of.countries.substr(i, 2) == country) return of.length;
    }
  }
  return 0;
}

// The result for a candidate: a match, or text of the right form with wrong check digits.
struct Match {
  size_t start;
  size_t end;
  bool is_valid = true;
};
using MaybeMatch = std::optional<Match>;

// One text. A position past its end reads as a zero byte, which is in no class.
class Reader {
 public:
  Reader(const uint8_t* text, size_t size) : text_(text), size_(size) {}

  uint8_t at(size_t position) const { return position < size_ ? text_[position] : 0; }
  uint8_t before(size_t position) const { return position > 0 ? text_[position - 1] : 0; }
  size_t size() const { return size_; }
  size_t run_end(size_t start, Class in) const {
    while (start < size_ && in(text_[start])) ++start;
    return start;
  }
  bool starts_with(size_t position, std::string_view text) const {
    return position <= size_ && size_ - position >= text.size() &&
           std::memcmp(text_ + position, text.data(), text.size()) == 0;
  }
  std::string_view view(size_t start, size_t end) const {
    return {reinterpret_cast<const char*>(text_) + start, end - start};
  }

  // at: position of the trigger. floor: end of the preset's last match.
  MaybeMatch key(size_t at, size_t floor) const;
  MaybeMatch card(size_t start) const;
  MaybeMatch email(size_t at, size_t floor) const;
  MaybeMatch iban(size_t first_digit) const;
  MaybeMatch ipv4(size_t start) const;
  MaybeMatch international_phone(size_t start) const;
  MaybeMatch american_phone(size_t start) const;
  MaybeMatch private_key(size_t start) const;
  MaybeMatch credentials(size_t at) const;

 private:
  bool digits(size_t start, size_t number) const {
    for (size_t i = 0; i < number; ++i) {
      if (!is_digit(at(start + i))) return false;
    }
    return true;
  }
  bool luhn(size_t start, size_t end) const;

  const uint8_t* text_;
  size_t size_;
};

MaybeMatch Reader::key(size_t position, size_t floor) const {
  for (const KeyPrefix& prefix : key_prefixes(at(position))) {
    if (position < prefix.trigger ||
        text_[position - 1] != static_cast<uint8_t>(prefix.text[prefix.trigger - 1])) {
      continue;
    }
    const size_t start = position - prefix.trigger;
    if (start < floor || is_key_byte(before(start)) || !starts_with(start, prefix.text)) continue;
    size_t begin = start + prefix.text.size();
    const size_t num_parts = prefix.text == "eyJ" ? kTokenParts : 1;
    for (size_t part = 0; part < num_parts; ++part) {
      const size_t end = run_end(begin, prefix.rest);
      if (end - begin < prefix.least) break;
      if (part + 1 == num_parts) return Match{start, end};
      if (at(end) != '.') break;
      begin = end + 1;
    }
  }
  return std::nullopt;
}

bool Reader::luhn(size_t start, size_t end) const {
  unsigned total = 0;
  bool is_doubled = false;
  for (size_t i = end; i-- > start;) {
    if (!is_digit(text_[i])) continue;
    const unsigned digit = (text_[i] - '0') * (is_doubled ? 2u : 1u);
    total += digit > 9 ? digit - 9 : digit;
    is_doubled = !is_doubled;
  }
  return total % 10 == 0;
}

MaybeMatch Reader::card(size_t start) const {
  const uint8_t first = at(start), previous = before(start);
  if (first < '2' || first > '6' || is_alnum(previous) || previous == '.') return std::nullopt;
  const auto ends_at = [&](size_t end) { return !is_alnum(at(end)); };
  const size_t together = run_end(start, is_digit);
  if (together - start >= 13 && together - start <= 19) {
    if (!ends_at(together)) return std::nullopt;
    return Match{start, together, luhn(start, together)};
  }
  const uint8_t separator = at(together);
  if (together - start != 4 || (separator != ' ' && separator != '-')) return std::nullopt;
  if (digits(start + 5, 4) && at(start + 9) == separator && digits(start + 10, 4) &&
      at(start + 14) == separator && digits(start + 15, 4)) {
    if (at(start + 19) == separator && digits(start + 20, 3) && ends_at(start + 23)) {
      return Match{start, start + 23, luhn(start, start + 23)};
    }
    if (ends_at(start + 19)) return Match{start, start + 19, luhn(start, start + 19)};
  }
  if (first == '3' && digits(start + 5, 6) && at(start + 11) == separator && digits(start + 12, 4)) {
    const size_t end = is_digit(at(start + 16)) ? start + 17 : start + 16;
    if (ends_at(end)) return Match{start, end, luhn(start, end)};
  }
  return std::nullopt;
}

MaybeMatch Reader::email(size_t sign, size_t floor) const {
  size_t start = sign;
  while (start > floor && is_mail_user(text_[start - 1])) --start;
  if (start == sign) return std::nullopt;
  // Labels up to an empty one; the domain ends with the last label, after the first, that begins with two
  // letters.
  size_t end = 0;
  for (size_t label = sign + 1, number = 0;; ++number) {
    const size_t label_end = run_end(label, is_alnum_dash);
    if (label_end == label) break;
    if (number > 0) {
      const size_t letters = run_end(label, is_letter);
      if (letters - label >= 2) end = letters;
    }
    if (at(label_end) != '.') break;
    label = label_end + 1;
  }
  if (end == 0) return std::nullopt;
  return Match{start, end};
}

MaybeMatch Reader::iban(size_t first_digit) const {
  if (first_digit < 2 || !is_upper(text_[first_digit - 1]) || !is_upper(text_[first_digit - 2])) {
    return std::nullopt;
  }
  const size_t start = first_digit - 2;
  if (is_alnum(before(start)) || !is_digit(at(first_digit + 1))) return std::nullopt;
  const size_t length = iban_length(view(start, first_digit));
  if (length == 0) return std::nullopt;
  const bool is_spaced = at(start + 4) == ' ';
  size_t end = start + 4;
  unsigned remainder = 0;  // of the number modulo 97; letters count as 10 to 35
  const auto add = [&](uint8_t c) {
    const unsigned value = is_digit(c) ? c - '0' : c - 'A' + 10u;
    remainder = (remainder * (value > 9 ? 100 : 10) + value) % 97;
  };
  for (size_t i = 4; i < length; ++i, ++end) {
    if (is_spaced && i % 4 == 0 && at(end++) != ' ') return std::nullopt;
    if (!is_upper_alnum(at(end))) return std::nullopt;
    add(text_[end]);
  }
  if (is_alnum(at(end))) return std::nullopt;
  for (size_t i = 0; i < 4; ++i) add(text_[start + i]);
  return Match{start, end, remainder == 1};
}

MaybeMatch Reader::ipv4(size_t start) const {
  const uint8_t previous = before(start);
  if (is_alnum(previous) || previous == '.') return std::nullopt;
  size_t end = start;
  for (size_t octet = 0; octet < 4; ++octet) {
    if (octet > 0 && at(end++) != '.') return std::nullopt;
    const size_t first = end;
    unsigned value = 0;
    while (end - first < 4 && is_digit(at(end))) value = value * 10 + (text_[end++] - '0');
    if (end == first || end - first > 3 || value > 255 || (at(first) == '0' && end - first > 1)) {
      return std::nullopt;
    }
  }
  if (is_alnum(at(end)) || (at(end) == '.' && is_digit(at(end + 1)))) return std::nullopt;
  return Match{start, end};
}

MaybeMatch Reader::international_phone(size_t start) const {
  const uint8_t previous = before(start);
  if (is_alnum(previous) || previous == '+' || at(start + 1) < '1' || at(start + 1) > '9')
    return std::nullopt;
  constexpr size_t kLeast = 8, kMost = 15;
  size_t end = 0, position = start + 2;
  for (size_t number = 1; number < kMost;) {
    size_t digit = position;
    while (digit - position < 2 &&
           std::string_view(" ().-").find(static_cast<char>(at(digit))) != std::string_view::npos) {
      ++digit;
    }
    if (!is_digit(at(digit))) break;
    position = digit + 1;
    if (++number >= kLeast && !is_digit(at(position))) end = position;
  }
  if (end == 0) return std::nullopt;
  return Match{start, end};
}

MaybeMatch Reader::american_phone(size_t start) const {
  const uint8_t previous = before(start);
  if (is_alnum(previous) || previous == '.' || previous == '-') return std::nullopt;
  const auto separates = [](uint8_t c) { return c == '-' || c == '.' || c == ' '; };
  const auto three = [&](size_t position) { return at(position) >= '2' && digits(position, 3); };
  size_t position = start;
  if (at(position) == '(') {
    if (!three(position + 1) || at(position + 4) != ')') return std::nullopt;
    position += 5;
    if (at(position) == ' ') ++position;
  } else {
    if (!three(position) || !separates(at(position + 3))) return std::nullopt;
    position += 4;
  }
  if (!three(position) || !separates(at(position + 3)) || !digits(position + 4, 4)) return std::nullopt;
  const size_t end = position + 8;
  if (is_alnum(at(end))) return std::nullopt;
  return Match{start, end};
}

MaybeMatch Reader::private_key(size_t start) const {
  constexpr std::string_view kBegin = "-----BEGIN ", kEnd = "-----END ", kDashes = "-----";
  if (!starts_with(start, kBegin)) return std::nullopt;
  const size_t label = start + kBegin.size();
  const size_t label_end = run_end(label, is_upper_alnum_space);
  std::string_view name = view(label, label_end);
  if (name.ends_with(" BLOCK")) name.remove_suffix(6);
  if (!name.ends_with("PRIVATE KEY") || !starts_with(label_end, kDashes)) return std::nullopt;
  const std::string_view rest = view(0, size_);
  for (size_t from = label_end + kDashes.size();;) {
    const size_t found = rest.find(kEnd, from);
    if (found == std::string_view::npos) return Match{start, size_};
    from = run_end(found + kEnd.size(), is_upper_alnum_space);
    if (starts_with(from, kDashes)) return Match{start, from + kDashes.size()};
  }
}

MaybeMatch Reader::credentials(size_t sign) const {
  size_t start = sign;
  bool has_colon = false;
  while (start > 0 && is_url_user(text_[start - 1])) has_colon |= text_[--start] == ':';
  if (!has_colon || start < 3 || view(start - 3, start) != "://") return std::nullopt;
  return Match{start, sign + 1};
}

}  // namespace

MaskFinder::MaskFinder(uint32_t presets) : presets_(presets) {
  const auto trigger_on = [&](MaskPreset preset, std::string_view bytes) {
    if ((presets >> static_cast<unsigned>(preset) & 1) == 0) return;
    for (const char c : bytes) is_trigger_[static_cast<uint8_t>(c)] = true;
  };
  constexpr std::string_view kDigits = "0123456789";
  trigger_on(MaskPreset::kApiKey, "_-IJ");
  trigger_on(MaskPreset::kCard, kDigits);
  trigger_on(MaskPreset::kEmail, "@");
  trigger_on(MaskPreset::kIban, kDigits);
  trigger_on(MaskPreset::kIpv4, kDigits);
  trigger_on(MaskPreset::kPhone, "+(");
  trigger_on(MaskPreset::kPhone, kDigits);
  trigger_on(MaskPreset::kPrivateKey, "-");
  trigger_on(MaskPreset::kUrlCredentials, "@");
}

void MaskFinder::find(const uint8_t* text, size_t size, std::vector<MaskedSpan>* spans) const {
  const Reader reader(text, size);
  std::array<size_t, kNumMaskPresets> ends{};  // end of each preset's last match
  const size_t first = spans->size();
  // look(floor) finds a match that starts at floor or later.
  size_t at = 0;
  const auto try_preset = [&](MaskPreset preset, auto look) {
    const auto number = static_cast<unsigned>(preset);
    // Skip triggers within the last match: otherwise a text that consists of beginnings of matches would
    // be read again and again.
    if ((presets_ >> number & 1) == 0 || at < ends[number]) return;
    const MaybeMatch found = look(ends[number]);
    if (!found || found->start < ends[number]) return;
    ends[number] = found->end;
    if (found->is_valid) spans->push_back({found->start, found->end, preset});
  };
  for (; at < size; ++at) {
    while (size - at >= 4 && !(is_trigger_[text[at]] | is_trigger_[text[at + 1]] | is_trigger_[text[at + 2]] |
                               is_trigger_[text[at + 3]])) {
      at += 4;
    }
    while (at < size && !is_trigger_[text[at]]) ++at;
    if (at == size) break;
    const uint8_t byte = text[at];
    if (is_digit(byte)) {
      try_preset(MaskPreset::kCard, [&](size_t) { return reader.card(at); });
      try_preset(MaskPreset::kIban, [&](size_t) { return reader.iban(at); });
      try_preset(MaskPreset::kIpv4, [&](size_t) { return reader.ipv4(at); });
      try_preset(MaskPreset::kPhone, [&](size_t) { return reader.american_phone(at); });
      at = reader.run_end(at, is_digit) - 1;  // a run of digits is tried only at its first digit
      continue;
    }
    switch (byte) {
      case '@':
        try_preset(MaskPreset::kEmail, [&](size_t floor) { return reader.email(at, floor); });
        try_preset(MaskPreset::kUrlCredentials, [&](size_t) { return reader.credentials(at); });
        break;
      case '+':
        try_preset(MaskPreset::kPhone, [&](size_t) { return reader.international_phone(at); });
        break;
      case '(':
        try_preset(MaskPreset::kPhone, [&](size_t) { return reader.american_phone(at); });
        break;
      case '-':
        try_preset(MaskPreset::kPrivateKey, [&](size_t) { return reader.private_key(at); });
        [[fallthrough]];
      default:
        try_preset(MaskPreset::kApiKey, [&](size_t floor) { return reader.key(at, floor); });
    }
  }
  std::sort(spans->begin() + static_cast<ptrdiff_t>(first), spans->end(),
            [](const MaskedSpan& a, const MaskedSpan& b) {
              return a.start != b.start ? a.start < b.start : a.preset < b.preset;
            });
}

}  // namespace tokcore
