// A vocabulary and texts out of the bytes, compared with the definition: merge the pair of lowest priority,
// leftmost first. Some vocabularies are broken, and some pieces lie outside of their text: those are refused.
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "encode/encoder.h"
#include "input.h"

namespace {

using namespace tokcore;
using namespace tokcore::fuzz;

struct MadeVocabulary {
  std::vector<std::string> tokens;
  std::vector<int32_t> ids, left, right, result;
  std::vector<uint32_t> priority;
  bool whole;

  explicit MadeVocabulary(Input& input) : whole(input.flag()) {
    const int32_t stride = input.flag() ? 1 : 1000;  // ids that are numbers of tokens, and others
    for (int byte = 0; byte < 256; ++byte) tokens.emplace_back(1, static_cast<char>(byte));
    // Letters, and the bytes of some wider characters.
    std::vector<size_t> symbols = {'a', 'b', ' ', 0xE4, 0xB8, 0xAD, 0xC3, 0xA9};
    std::set<std::pair<size_t, size_t>> known;
    std::map<std::string, size_t> numbers;
    for (size_t merges = input.below(48); merges > 0; --merges) {
      const size_t a = symbols[input.below(symbols.size())], b = symbols[input.below(symbols.size())];
      std::string joined = tokens[a] + tokens[b];
      if (joined.size() > 300 || !known.insert({a, b}).second) continue;
      const auto [place, is_new] = numbers.try_emplace(joined, tokens.size());
      if (is_new) {
        symbols.push_back(tokens.size());
        tokens.push_back(std::move(joined));
      }
      left.push_back(static_cast<int32_t>(a) * stride);
      right.push_back(static_cast<int32_t>(b) * stride);
      result.push_back(static_cast<int32_t>(place->second) * stride);
      priority.push_back(static_cast<uint32_t>(priority.size()) * 3);
    }
    for (size_t i = 0; i < tokens.size(); ++i) ids.push_back(static_cast<int32_t>(i) * stride);
    if (input.flag()) {
      for (size_t i = 1; i < priority.size(); ++i) std::swap(priority[i], priority[input.below(i + 1)]);
    }
  }

  // By the definition.
  void encode(std::string_view piece, std::vector<int32_t>* out) const {
    if (const auto found = std::find(tokens.begin(), tokens.end(), piece); whole && found != tokens.end()) {
      out->push_back(ids[static_cast<size_t>(found - tokens.begin())]);
      return;
    }
    std::map<std::pair<int32_t, int32_t>, size_t> merges;
    for (size_t i = 0; i < left.size(); ++i) merges[{left[i], right[i]}] = i;
    std::vector<int32_t> symbols;
    for (const char byte : piece) symbols.push_back(ids[static_cast<uint8_t>(byte)]);
    for (;;) {
      size_t best = left.size(), at = 0;
      for (size_t i = 0; i + 1 < symbols.size(); ++i) {
        const auto merge = merges.find({symbols[i], symbols[i + 1]});
        if (merge == merges.end()) continue;
        if (best == left.size() || priority[merge->second] < priority[best]) {
          best = merge->second;
          at = i;
        }
      }
      if (best == left.size()) break;
      symbols[at] = result[best];
      symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(at) + 1);
    }
    out->insert(out->end(), symbols.begin(), symbols.end());
  }
};

// Changes something, often to what must not be.
void damage(Input& input, MadeVocabulary& made, std::vector<int64_t>& offsets) {
  const auto any = [&](auto& values) {
    if (values.empty()) return;
    const size_t at = input.below(values.size());
    values[at] = static_cast<std::remove_reference_t<decltype(values[0])>>(input.number());
  };
  switch (input.below(6)) {
    case 0:
      return any(offsets);
    case 1:
      return any(made.ids);
    case 2:
      return any(made.left);
    case 3:
      return any(made.right);
    case 4:
      return any(made.result);
    default:
      return any(made.priority);
  }
}

bool are_ends(const std::vector<int64_t>& offsets, const std::vector<int64_t>& ends,
              const std::vector<int64_t>& firsts) {
  for (size_t text = 0; text + 1 < offsets.size(); ++text) {
    const int64_t first = firsts[text], last = firsts[text + 1];
    if (first < 0 || last < first || last > static_cast<int64_t>(ends.size())) return false;
    int64_t begin = offsets[text];
    for (int64_t i = first; i < last; ++i) {
      if (ends[static_cast<size_t>(i)] <= begin) return false;
      begin = ends[static_cast<size_t>(i)];
    }
    if (begin != offsets[text + 1]) return false;
  }
  return true;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static constexpr size_t kCacheBytes[] = {0, 4096, 20000, 1 << 20};
  static constexpr Pattern kPatterns[] = {Pattern::kGpt2, Pattern::kCl100k, Pattern::kO200k};
  Input input(data, size);
  const auto forms = implementations();
  const Implementation implementation = forms[input.below(forms.size())];
  const Scanner scanner(kPatterns[input.below(std::size(kPatterns))], implementation);
  const size_t cache_bytes = kCacheBytes[input.below(std::size(kCacheBytes))];
  const size_t threads = 1 + input.below(3);
  const uint8_t mode = input.byte();
  MadeVocabulary made(input);

  std::string token_bytes;
  std::vector<int64_t> token_offsets{0};
  for (const std::string& token : made.tokens) {
    token_bytes += token;
    token_offsets.push_back(static_cast<int64_t>(token_bytes.size()));
  }
  const bool damaged = mode % 8 == 1;
  if (damaged) damage(input, made, token_offsets);
  const auto token_data = exact(token_bytes);
  Encoder encoder(scanner, implementation, cache_bytes);
  const VocabularyResult built =
      encoder.build({token_data.get(), token_bytes.size(), token_offsets.data(), made.ids.size(),
                     made.ids.data(), made.left.size(), made.left.data(), made.right.data(),
                     made.result.data(), made.priority.data(), made.whole});
  if (built.status != VocabularyStatus::kOk) {
    expect(damaged, "a sound vocabulary is accepted");
    return 0;
  }

  // Texts: raw bytes and tokens, in which merges are found.
  std::string content;
  std::vector<int64_t> offsets{0};
  while (input.left() > 0 && content.size() < 3000) {
    const uint8_t kind = input.byte();
    if (kind % 8 == 0) {
      offsets.push_back(static_cast<int64_t>(content.size()));
    } else if (kind % 8 == 1) {
      content += kind < 128 ? input.take(kind / 8) : kind < 192 ? "\xE4\xB8\xAD" : "\xC3\xA9";
    } else {
      const size_t number = 97 + input.below(made.tokens.size() - 97);
      for (int repeats = kind >= 250 ? 40 : 1; repeats > 0; --repeats) content += made.tokens[number];
    }
  }
  offsets.push_back(static_cast<int64_t>(content.size()));
  if (mode / 8 == 1 && !damaged) {  // enough for several threads
    const std::string once = content;
    const size_t num_once = offsets.size();
    while (!once.empty() && content.size() < 140'000) {
      const auto base = static_cast<int64_t>(content.size());
      for (size_t i = 1; i < num_once; ++i) offsets.push_back(base + offsets[i]);
      content += once;
    }
  }
  const auto text = exact(content);
  const size_t num_texts = offsets.size() - 1;

  std::vector<int64_t> ends, firsts{0}, expected_offsets{0}, expected_pretokens;
  std::vector<int32_t> expected;
  std::map<std::string_view, std::vector<int32_t>> remembered;
  for (size_t i = 0; i < num_texts; ++i) {
    const uint8_t* begin = text.get() + offsets[i];
    const auto length = static_cast<size_t>(offsets[i + 1] - offsets[i]);
    for (size_t at = 0; at < length;) {
      uint64_t end = 0;
      expect(scanner.scan(begin, length, at, &end, 1) == 1, "there is a pre-token");
      const std::string_view piece(reinterpret_cast<const char*>(begin) + at, end - at);
      const auto [place, is_new] = remembered.try_emplace(piece);
      if (is_new && !damaged) made.encode(piece, &place->second);
      expected.insert(expected.end(), place->second.begin(), place->second.end());
      ends.push_back(offsets[i] + static_cast<int64_t>(end));
      at = end;
    }
    firsts.push_back(static_cast<int64_t>(ends.size()));
    expected_offsets.push_back(static_cast<int64_t>(expected.size()));
    expected_pretokens.push_back(firsts[i + 1] - firsts[i]);
  }
  const TextBatch texts{text.get(), content.size(), offsets.data(), num_texts};
  const auto check = [&](const EncodeResult& result, const EncodedBatch& encoded) {
    expect(result.status == EncodeStatus::kOk, "sound texts are encoded");
    if (damaged) return;  // a damaged vocabulary may encode to anything
    expect(encoded.offsets == expected_offsets && encoded.pretokens == expected_pretokens &&
               std::equal(expected.begin(), expected.end(), encoded.ids.data(), encoded.ids.end()),
           "ids are those of the definition");
  };
  for (int again = 0; again < 2; ++again) {  // the second time out of the cache
    EncodedBatch encoded;
    check(encoder.encode(texts, threads, &encoded), encoded);
  }
  {
    EncodedBatch encoded;
    check(encoder.encode_pieces(texts, {ends.data(), ends.size(), firsts.data()}, threads, &encoded),
          encoded);
  }

  // Positions out of their order or out of the text.
  for (size_t changes = 1 + input.below(2); changes > 0; --changes) {
    auto& values = mode % 3 == 0 ? offsets : mode % 3 == 1 ? ends : firsts;
    if (values.empty()) continue;
    int64_t& value = values[input.below(std::min<size_t>(values.size(), 1 << 16))];
    const auto number = static_cast<int64_t>(input.number());
    value = mode % 2 == 0
                ? number
                : static_cast<int64_t>(static_cast<uint64_t>(value) + static_cast<uint64_t>(number) - 2);
  }
  EncodedBatch encoded;
  const EncodeResult result =
      encoder.encode_pieces(texts, {ends.data(), ends.size(), firsts.data()}, threads, &encoded);
  if (result.status == EncodeStatus::kOk)
    expect(are_ends(offsets, ends, firsts), "broken pieces are refused");
  return 0;
}
