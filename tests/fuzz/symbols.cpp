// Texts and vocabularies of symbols: characters or bytes, that are other symbols where a pre-token begins or
// ends, with an unknown symbol, bytes for unknown characters, whole pre-tokens. Ids are those of the
// definition, whatever the cache and the threads.
#include <algorithm>
#include <map>
#include <tuple>

#include "encode/encoder.h"
#include "input.h"
#include "scan/character.h"
#include "scan/scanner.h"

namespace {

using namespace tokcore;
using namespace tokcore::fuzz;

constexpr size_t kMaxTail = 400;  // bytes of a text that are taken as they are: the definition is slow
const char* const kLetters[] = {"a", "b", "c", "\xC3\xA9", "\xE6\x97\xA5", "\xF0\x9F\x98\x80", " "};

struct Symbols {
  std::vector<int32_t> ids;
  std::map<std::tuple<std::string, unsigned>, uint32_t> of_character;  // and its place
  std::vector<int32_t> of_byte;
  std::map<std::pair<uint32_t, uint32_t>, std::pair<size_t, uint32_t>> merges;  // rank and result
  std::map<std::string, uint32_t> whole;
  int32_t unknown = -1;
  bool bytewise = false, fuses_unknown = false;
};

std::vector<uint32_t> split_slowly(const std::string& word, const Symbols& known) {
  std::vector<uint32_t> found;
  size_t waiting = 0;  // unknown symbols before the next one that a character has
  const auto write = [&] {
    found.insert(found.end(), waiting, static_cast<uint32_t>(known.unknown));
    waiting = 0;
  };
  for (size_t i = 0, width; i < word.size(); i += width) {
    const auto* at = reinterpret_cast<const uint8_t*>(word.data()) + i;
    const bool is_one_byte = known.bytewise || *at < 0x80;
    width = is_one_byte ? 1 : multibyte_code_point_at(at, word.size() - i, 0).size;
    const bool is_last = i + width == word.size();
    const unsigned place = i == 0 ? (is_last ? 0 : 1) : (is_last ? 3 : 2);
    const std::string character = word.substr(i, width);
    const auto symbol = known.of_character.find({character, place});
    const auto has_symbol = [&](char byte) { return known.of_byte[static_cast<uint8_t>(byte)] >= 0; };
    if (symbol != known.of_character.end()) {
      write();
      found.push_back(symbol->second);
    } else if (!known.of_byte.empty() && std::all_of(character.begin(), character.end(), has_symbol)) {
      for (const char byte : character)
        found.push_back(static_cast<uint32_t>(known.of_byte[static_cast<uint8_t>(byte)]));
    } else if (known.unknown >= 0) {
      if (!known.fuses_unknown) write();
      waiting = 1;
    }
  }
  write();
  return found;
}

std::vector<int32_t> encode_slowly(const std::string& word, const Symbols& known) {
  const auto whole = known.whole.find(word);
  if (whole != known.whole.end()) return {known.ids[whole->second]};
  std::vector<uint32_t> symbols = split_slowly(word, known);
  for (;;) {
    size_t best = known.merges.size(), at = 0;
    for (size_t i = 0; i + 1 < symbols.size(); ++i) {
      const auto found = known.merges.find({symbols[i], symbols[i + 1]});
      if (found == known.merges.end() || found->second.first >= best) continue;
      best = found->second.first;
      at = i;
    }
    if (best == known.merges.size()) break;
    symbols[at] = known.merges.at({symbols[at], symbols[at + 1]}).second;
    symbols.erase(symbols.begin() + static_cast<ptrdiff_t>(at) + 1);
  }
  std::vector<int32_t> ids;
  for (const uint32_t symbol : symbols) ids.push_back(known.ids[symbol]);
  return ids;
}

std::string spell(Input& input, size_t count) {
  std::string text;
  for (size_t i = 0; i < count; ++i) text += kLetters[input.byte() % std::size(kLetters)];
  return text;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Input input(data, size);
  Symbols known;
  known.bytewise = input.flag();
  known.fuses_unknown = input.flag();
  const size_t cache_bytes = size_t{input.byte()} << 8, threads = 1 + input.byte() % 3;
  const size_t num_symbols = 1 + input.byte() % 24;
  for (size_t i = 0; i < num_symbols; ++i) known.ids.push_back(static_cast<int32_t>(3 * i + 10));
  const auto draw = [&] { return static_cast<uint32_t>(input.below(num_symbols)); };
  if (input.flag()) known.unknown = static_cast<int32_t>(draw());

  std::vector<uint32_t> characters, symbols;
  std::vector<uint8_t> places;
  for (size_t left = input.byte() % 24; left > 0; --left) {
    std::string character = kLetters[input.byte() % std::size(kLetters)];
    if (known.bytewise) character = character.substr(input.byte() % character.size(), 1);
    const auto place = static_cast<uint8_t>(input.byte() % 4);
    const uint32_t symbol = draw();
    if (!known.of_character.emplace(std::tuple{character, place}, symbol).second) continue;
    const auto* at = reinterpret_cast<const uint8_t*>(character.data());
    characters.push_back(known.bytewise || character.size() == 1
                             ? *at
                             : multibyte_code_point_at(at, character.size(), 0).value);
    places.push_back(place);
    symbols.push_back(symbol);
  }
  if (input.flag()) {
    for (int byte = 0; byte < 256; ++byte) known.of_byte.push_back(static_cast<int32_t>(byte % num_symbols));
    for (size_t left = input.byte() % 4; left > 0; --left) known.of_byte[input.byte()] = -1;
  }
  std::vector<uint32_t> left, right, result;
  for (size_t more = input.byte() % 48; more > 0; --more) {
    const uint32_t one = draw(), other = draw(), made = draw();
    if (!known.merges.emplace(std::pair{one, other}, std::pair{left.size(), made}).second) continue;
    left.push_back(one);
    right.push_back(other);
    result.push_back(made);
  }
  std::string whole_bytes;
  std::vector<int64_t> whole_offsets{0};
  std::vector<uint32_t> whole_symbols;
  for (size_t more = input.byte() % 4; more > 0; --more) {
    const std::string word = spell(input, 1 + input.byte() % 4);
    const uint32_t symbol = draw();
    if (!known.whole.emplace(word, symbol).second) continue;
    whole_bytes += word;
    whole_offsets.push_back(static_cast<int64_t>(whole_bytes.size()));
    whole_symbols.push_back(symbol);
  }
  std::string text = spell(input, input.byte());
  text += std::string(input.take(std::min(input.left(), kMaxTail)));
  const auto bytes = exact(text);

  const Scanner scanner(Pattern::kGpt2, Implementation::kPortable);
  std::vector<int32_t> expected;
  for (size_t begin = 0; begin < text.size();) {
    uint64_t end;
    expect(scanner.scan(bytes.get(), text.size(), begin, &end, 1) == 1 && end > begin && end <= text.size(),
           "a pre-token is found");
    const std::vector<int32_t> own = encode_slowly(text.substr(begin, end - begin), known);
    expected.insert(expected.end(), own.begin(), own.end());
    begin = end;
  }
  const auto whole = exact(whole_bytes);
  const SymbolVocabulary vocabulary{
      known.ids.data(),     known.ids.size(),
      characters.data(),    places.data(),
      symbols.data(),       characters.size(),
      known.bytewise,       known.of_byte.empty() ? nullptr : known.of_byte.data(),
      known.unknown,        known.fuses_unknown,
      left.data(),          right.data(),
      result.data(),        left.size(),
      whole.get(),          whole_bytes.size(),
      whole_offsets.data(), whole_symbols.data(),
      whole_symbols.size()};
  for (const size_t cache : {cache_bytes, size_t{0}}) {
    Encoder encoder(scanner, Implementation::kPortable, cache);
    expect(encoder.build(vocabulary).status == VocabularyStatus::kOk, "the vocabulary is taken");
    const int64_t offsets[2] = {0, static_cast<int64_t>(text.size())};
    for (int again = 0; again < 2; ++again) {
      EncodedBatch encoded;
      const EncodeResult done = encoder.encode({bytes.get(), text.size(), offsets, 1}, threads, &encoded);
      expect(done.status == EncodeStatus::kOk, "the text is encoded");
      expect(std::vector<int32_t>(encoded.ids.data(), encoded.ids.data() + encoded.ids.size()) == expected,
             "ids are those of the definition");
    }
  }
  return 0;
}
