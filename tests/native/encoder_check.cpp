// Encodes random texts with random vocabularies, and compares with the definition: merge the pair of lowest
// priority, leftmost first. Texts stand in memory of exactly their size, caches are tiny, so that a sanitizer
// sees every step beyond. Prints what differs and exits 1.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "encode/encoder.h"

namespace {

using tokcore::EncodedBatch;
using tokcore::Encoder;

struct Random {
  uint64_t state;
  size_t below(size_t limit) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return static_cast<size_t>(state % limit);
  }
};

constexpr const char* kWide[] = {"\xC3\xA9",     "\xD1\x8F",     "\xE0\xB8\x81",
                                 "\xE4\xB8\xAD", "\xE6\x96\x87", "\xF0\x9F\x98\x80"};

struct RandomVocabulary {
  std::vector<std::string> tokens;
  std::vector<int32_t> left, right, result;
  std::vector<uint32_t> priority;
  bool whole;

  // sorted: priorities rise with the merges, as in a learned vocabulary; else they are in any order.
  RandomVocabulary(Random& random, size_t num_merges, bool sorted, bool wide) : whole(random.below(2) == 0) {
    for (int byte = 0; byte < 256; ++byte) tokens.emplace_back(1, static_cast<char>(byte));
    // Letters of ASCII, or the bytes of some characters of two to four bytes.
    std::vector<int32_t> symbols = {'a', 'b', 'c'};
    if (wide) {
      for (const char* character : kWide) {
        for (; *character != 0; ++character) symbols.push_back(static_cast<uint8_t>(*character));
      }
    }
    std::map<std::pair<int32_t, int32_t>, bool> known;
    std::map<std::string, int32_t> ids;
    while (left.size() < num_merges) {
      const int32_t a = symbols[random.below(symbols.size())], b = symbols[random.below(symbols.size())];
      const std::string joined = tokens[static_cast<size_t>(a)] + tokens[static_cast<size_t>(b)];
      if (joined.size() > 200 || std::exchange(known[{a, b}], true)) continue;
      if (!ids.contains(joined)) {
        ids[joined] = static_cast<int32_t>(tokens.size());
        symbols.push_back(ids[joined]);
        tokens.push_back(joined);
      }
      left.push_back(a);
      right.push_back(b);
      result.push_back(ids[joined]);
      priority.push_back(static_cast<uint32_t>(priority.size()));
    }
    for (size_t i = 1; !sorted && i < priority.size(); ++i)
      std::swap(priority[i], priority[random.below(i + 1)]);
  }

  // Two ways to make a token of bytes that no text has: so it is merged by heap, whatever its length.
  void spoil() {
    const int32_t a = 0xF5, b = 0xF6, next = static_cast<int32_t>(tokens.size());
    tokens.insert(tokens.end(), {"\xF5\xF6", "\xF6\xF5", "\xF5\xF6\xF5"});
    left.insert(left.end(), {a, b, next, a});
    right.insert(right.end(), {b, a, a, next + 1});
    result.insert(result.end(), {next, next + 1, next + 2, next + 2});
    for (int i = 0; i < 4; ++i) priority.push_back(static_cast<uint32_t>(priority.size()));
  }

  bool build(Encoder& encoder) const {
    std::string data;
    std::vector<int64_t> offsets = {0};
    std::vector<int32_t> ids;
    for (const std::string& token : tokens) {
      data += token;
      offsets.push_back(static_cast<int64_t>(data.size()));
      ids.push_back(static_cast<int32_t>(ids.size()));
    }
    const auto result_of_build = encoder.build(
        {reinterpret_cast<const uint8_t*>(data.data()), data.size(), offsets.data(), ids.size(), ids.data(),
         left.size(), left.data(), right.data(), result.data(), priority.data(), whole});
    return result_of_build.status == tokcore::VocabularyStatus::kOk;
  }

  std::vector<int32_t> encoded(const std::string& piece) const {
    if (const auto found = std::find(tokens.begin(), tokens.end(), piece); whole && found != tokens.end()) {
      return {static_cast<int32_t>(found - tokens.begin())};
    }
    std::vector<int32_t> symbols;
    for (const char byte : piece) symbols.push_back(static_cast<uint8_t>(byte));
    for (;;) {
      size_t best = left.size(), at = 0;
      for (size_t i = 0; i + 1 < symbols.size(); ++i) {
        for (size_t k = 0; k < left.size(); ++k) {
          if (left[k] == symbols[i] && right[k] == symbols[i + 1] &&
              (best == left.size() || priority[k] < priority[best])) {
            best = k;
            at = i;
          }
        }
      }
      if (best == left.size()) return symbols;
      symbols[at] = result[best];
      symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(at) + 1);
    }
  }
};

bool check(Random& random, tokcore::Implementation implementation) {
  const bool wide = random.below(2) == 0;
  const RandomVocabulary made(random, random.below(wide ? 60 : 30), random.below(3) != 0, wide);
  const size_t cache_sizes[] = {0, 4096, 20000, 1 << 20};
  Encoder encoder(std::nullopt, implementation, cache_sizes[random.below(4)]);
  if (!made.build(encoder)) return false;

  for (int round = 0; round < 3; ++round) {
    std::string text;
    std::vector<int64_t> text_offsets = {0}, ends, firsts = {0};
    std::vector<int32_t> expected;
    std::vector<int64_t> expected_offsets = {0};
    for (size_t i = random.below(40); i > 0; --i) {
      for (size_t k = random.below(5); k > 0; --k) {
        std::string piece;
        const size_t num_parts = 1 + random.below(random.below(12) == 0 ? 60 : 6);
        for (size_t part = 0; part < num_parts; ++part) {
          piece += wide && random.below(2) == 0 ? kWide[random.below(std::size(kWide))]
                                                : made.tokens[97 + random.below(made.tokens.size() - 97)];
        }
        if (piece.size() > 600) piece.resize(600);
        text += piece;
        ends.push_back(static_cast<int64_t>(text.size()));
        for (const int32_t id : made.encoded(piece)) expected.push_back(id);
      }
      text_offsets.push_back(static_cast<int64_t>(text.size()));
      firsts.push_back(static_cast<int64_t>(ends.size()));
      expected_offsets.push_back(static_cast<int64_t>(expected.size()));
    }
    const auto exact = std::make_unique<uint8_t[]>(text.size());
    std::memcpy(exact.get(), text.data(), text.size());
    EncodedBatch encoded;
    const auto result =
        encoder.encode_pieces({exact.get(), text.size(), text_offsets.data(), firsts.size() - 1},
                              {ends.data(), ends.size(), firsts.data()}, 1 + random.below(3), &encoded);
    if (result.status != tokcore::EncodeStatus::kOk || encoded.offsets != expected_offsets ||
        !std::equal(expected.begin(), expected.end(), encoded.ids.data(), encoded.ids.end())) {
      std::printf("differs: %zu merges, %zu bytes\n", made.left.size(), text.size());
      return false;
    }
  }
  return true;
}

// Pieces too long for the definition above, of a few bytes again and again, with and without something at
// both ends: against merging by heap.
bool check_long(Random& random, tokcore::Implementation implementation) {
  const bool wide = random.below(2) == 0;
  RandomVocabulary made(random, random.below(wide ? 60 : 30), true, wide);
  Encoder encoder(std::nullopt, implementation, 0), by_heap(std::nullopt, implementation, 0);
  if (!made.build(encoder)) return false;
  made.spoil();
  if (!made.build(by_heap)) return false;
  const auto token = [&] { return made.tokens[97 + random.below(made.tokens.size() - 3 - 97)]; };
  const size_t size = random.below(2) == 0 ? 60 + random.below(7000) : 16000 + random.below(5000);
  std::string unit = token(), piece = random.below(2) == 0 ? token() : "";
  while (random.below(2) == 0) unit += token();
  while (piece.size() < size) piece += unit;
  piece.resize(size);
  if (random.below(2) == 0) piece += token();
  for (char& byte : piece) byte = byte == '\xF5' || byte == '\xF6' ? '\xF7' : byte;
  const auto exact = std::make_unique<uint8_t[]>(piece.size());
  std::memcpy(exact.get(), piece.data(), piece.size());
  const int64_t offsets[] = {0, static_cast<int64_t>(piece.size())}, firsts[] = {0, 1};
  EncodedBatch encoded, expected;
  for (const auto& [one, out] : {std::pair{&encoder, &encoded}, std::pair{&by_heap, &expected}}) {
    const auto result =
        one->encode_pieces({exact.get(), piece.size(), offsets, 1}, {&offsets[1], 1, firsts}, 1, out);
    if (result.status != tokcore::EncodeStatus::kOk) return false;
  }
  if (std::equal(expected.ids.data(), expected.ids.end(), encoded.ids.data(), encoded.ids.end())) return true;
  std::printf("differs: %zu merges, %zu times %zu bytes\n", made.left.size(), size, unit.size());
  return false;
}

// UTF-8 by its definition.
void append_utf8(uint32_t c, std::string* out) {
  const auto put = [&](uint32_t byte) { out->push_back(static_cast<char>(byte)); };
  const auto put_rest = [&](int shift) { put(0x80 | ((c >> shift) & 0x3F)); };
  if (c < 0x80) return put(c);
  if (c < 0x800) return put(0xC0 | (c >> 6)), put_rest(0);
  if (c < 0x10000) return put(0xE0 | (c >> 12)), put_rest(6), put_rest(0);
  put(0xF0 | (c >> 18)), put_rest(12), put_rest(6), put_rest(0);
}

// Strings of all widths, each in memory of exactly its size, against the same texts side by side.
bool check_strings(Random& random, tokcore::Implementation implementation) {
  using tokcore::Encoding;
  const RandomVocabulary made(random, random.below(30), true, false);
  Encoder encoder(tokcore::Scanner(tokcore::Pattern::kGpt2, implementation), implementation, 4096);
  if (!made.build(encoder)) return false;
  constexpr uint32_t kLimits[] = {0x80, 0x100, 0x10000, 0x110000};
  constexpr size_t kWidths[] = {1, 1, 2, 4};
  std::string data;
  std::vector<int64_t> offsets = {0};
  std::vector<std::unique_ptr<uint8_t[]>> memory;
  std::vector<tokcore::StringView> strings;
  for (size_t i = random.below(40); i > 0; --i) {
    const size_t kind = random.below(4);
    const size_t size = random.below(8) == 0 ? random.below(30000) : random.below(70);
    const uint32_t limit = random.below(2) == 0 ? 0x80 : kLimits[kind];  // mostly ASCII, or anything
    memory.push_back(std::make_unique<uint8_t[]>(size * kWidths[kind]));
    for (size_t k = 0; k < size; ++k) {
      auto c = static_cast<uint32_t>(random.below(random.below(20) == 0 ? kLimits[kind] : limit));
      if (c >= 0xD800 && c < 0xE000) c = 'x';
      append_utf8(c, &data);
      std::memcpy(memory.back().get() + k * kWidths[kind], &c, kWidths[kind]);
    }
    strings.push_back({memory.back().get(), size, static_cast<Encoding>(kind)});
    offsets.push_back(static_cast<int64_t>(data.size()));
  }
  EncodedBatch encoded, expected;
  const auto* bytes = reinterpret_cast<const uint8_t*>(data.data());
  const auto flat = encoder.encode({bytes, data.size(), offsets.data(), strings.size()}, 1, &expected);
  const auto result = encoder.encode_strings({strings.data(), strings.size()}, 1 + random.below(3), &encoded);
  if (flat.status != tokcore::EncodeStatus::kOk || result.status != tokcore::EncodeStatus::kOk ||
      encoded.offsets != expected.offsets || encoded.pretokens != expected.pretokens ||
      !std::equal(expected.ids.data(), expected.ids.end(), encoded.ids.data(), encoded.ids.end())) {
    std::printf("strings differ: %zu of them, %zu bytes\n", strings.size(), data.size());
    return false;
  }
  for (size_t i = 0; i < strings.size(); ++i) {
    std::vector<int32_t> alone;
    const auto one = encoder.encode_string(
        strings[i], [&](const int32_t* ids, size_t num_ids) { alone.assign(ids, ids + num_ids); });
    const int32_t* const ids = expected.ids.data();
    if (one.status != tokcore::EncodeStatus::kOk ||
        !std::equal(ids + expected.offsets[i], ids + expected.offsets[i + 1], alone.begin(), alone.end())) {
      std::printf("string %zu of %zu differs alone\n", i, strings.size());
      return false;
    }
  }
  if (strings.empty()) return true;
  const uint16_t surrogate[] = {'a', static_cast<uint16_t>(0xD800 + random.below(0x800))};
  const size_t place = random.below(strings.size());
  strings[place] = {surrogate, 2, Encoding::kUcs2};
  EncodedBatch none;
  const auto refused = encoder.encode_strings({strings.data(), strings.size()}, 1, &none);
  return refused.status == tokcore::EncodeStatus::kSurrogate && refused.position == place;
}

}  // namespace

int main(int count, char** arguments) {
  Random random{0x9E3779B97F4A7C15u};
  const bool wide = count > 2 && std::string(arguments[2]) == "avx2";
  const auto implementation = wide ? tokcore::Implementation::kAvx2 : tokcore::Implementation::kPortable;
  for (long i = count > 1 ? std::atol(arguments[1]) : 100; i > 0; --i) {
    if (!check(random, implementation) || (i % 4 == 0 && !check_long(random, implementation)) ||
        (i % 8 == 0 && !check_strings(random, implementation)))
      return 1;
  }
  return 0;
}
