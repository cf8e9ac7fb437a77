// Texts and vocabularies of word pieces: what is normalized has no marks out of order, pre-tokens cover their
// text, and ids are those of the definition, whatever the cache and the threads.
#include <map>

#include "encode/encoder.h"
#include "input.h"
#include "scan/scanner.h"
#include "text/bert_normalizer.h"

namespace {

using namespace tokcore;
using namespace tokcore::fuzz;

using Known = std::map<std::string, int32_t>;

constexpr int32_t kUnknown = 7;

std::vector<int32_t> encode_slowly(const std::string& word, const Known& first, const Known& further,
                                   uint64_t max_characters) {
  const auto is_first_byte = [](char byte) { return (static_cast<uint8_t>(byte) & 0xC0) != 0x80; };
  const auto characters = static_cast<uint64_t>(std::count_if(word.begin(), word.end(), is_first_byte));
  if (max_characters != 0 && characters > max_characters) return {kUnknown};
  std::vector<int32_t> ids;
  for (size_t begin = 0; begin < word.size();) {
    const Known& known = begin == 0 ? first : further;
    size_t end = word.size();
    while (end > begin && !known.contains(word.substr(begin, end - begin))) --end;
    if (end == begin) return {kUnknown};
    ids.push_back(known.at(word.substr(begin, end - begin)));
    begin = end;
  }
  return ids;
}

std::vector<uint8_t> normalize(const std::string& text, bool cased) {
  const auto bytes = exact(text);
  BertNormalizer normalizer(cased);
  normalizer.add(bytes.get(), text.size());
  return normalizer.take();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Input input(data, size);
  const bool cased = input.flag();
  const uint64_t max_characters = input.byte() % 8;
  const size_t cache_bytes = size_t{input.byte()} << 8;
  const size_t threads = 1 + input.byte() % 3;
  Known known[2];
  std::string token_bytes;
  std::vector<int64_t> token_offsets{0};
  std::vector<int32_t> ids;
  std::vector<uint8_t> continues;
  const size_t num_tokens = input.byte() % 24;
  for (size_t i = 0; i < num_tokens; ++i) {
    const uint8_t goes_on = input.byte() & 1;
    const std::string token(input.take(1 + input.byte() % 5));
    const auto id = static_cast<int32_t>(i + 10);
    if (token.empty() || !known[goes_on].emplace(token, id).second) continue;
    token_bytes += token;
    token_offsets.push_back(static_cast<int64_t>(token_bytes.size()));
    ids.push_back(id);
    continues.push_back(goes_on);
  }
  const std::string raw(input.take(input.left()));
  const std::vector<uint8_t> normalized = normalize(raw, cased);
  const std::string text(normalized.begin(), normalized.end());
  const auto bytes = exact(text);
  // Any bytes may come, but the count of characters above is that of well-formed text.
  const Scanner scanner(Pattern::kBert, Implementation::kPortable);
  std::vector<int64_t> ends;
  std::vector<int32_t> expected;
  for (size_t begin = 0; begin < text.size();) {
    uint64_t found[3];
    const size_t count = scanner.scan(bytes.get(), text.size(), begin, found, 3);
    expect(count > 0, "a pre-token is found");
    for (size_t i = 0; i < count; ++i) {
      expect(found[i] > begin && found[i] <= text.size(), "pre-tokens go on");
      const std::string word = text.substr(begin, found[i] - begin);
      if (word.find_first_not_of(' ') != std::string::npos) {
        const std::vector<int32_t> own = encode_slowly(word, known[0], known[1], max_characters);
        expected.insert(expected.end(), own.begin(), own.end());
      }
      begin = found[i];
      ends.push_back(static_cast<int64_t>(begin));
    }
  }
  const auto tokens = exact(token_bytes);
  Encoder encoder(scanner, Implementation::kPortable, cache_bytes);
  const VocabularyResult built =
      encoder.build(WordpieceVocabulary{tokens.get(), token_bytes.size(), token_offsets.data(), ids.size(),
                                        ids.data(), continues.data(), kUnknown, max_characters, true});
  expect(built.status == VocabularyStatus::kOk, "the vocabulary is taken");
  const int64_t offsets[2] = {0, static_cast<int64_t>(text.size())};
  for (int again = 0; again < 2; ++again) {
    EncodedBatch encoded;
    const EncodeResult result = encoder.encode({bytes.get(), text.size(), offsets, 1}, threads, &encoded);
    expect(result.status == EncodeStatus::kOk, "the text is encoded");
    expect(std::vector<int32_t>(encoded.ids.data(), encoded.ids.data() + encoded.ids.size()) == expected,
           "ids are those of the definition");
    expect(encoded.pretokens[0] == static_cast<int64_t>(ends.size()), "pre-tokens are counted");
  }
  return 0;
}
