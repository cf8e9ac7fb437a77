// Tiny tables of words over few letters, and vocabularies of them: the tokens that stay are those of the
// definition, whatever the order of words, the cut of their counts and the number of threads.
#include <map>
#include <set>
#include <string>

#include "input.h"
#include "unigram/fewest_tokens.h"

namespace {

using namespace tokcore;
using namespace tokcore::fuzz;

struct List {
  std::string bytes;
  std::vector<int64_t> offsets{0};

  void add(std::string_view text) {
    bytes += text;
    offsets.push_back(static_cast<int64_t>(bytes.size()));
  }
};

std::vector<int32_t> drop(const std::vector<std::string>& words, const std::vector<uint64_t>& counts,
                          const std::vector<std::string>& tokens, const FewestTokensOptions& options) {
  List of_words, of_tokens;
  for (const std::string& word : words) of_words.add(word);
  for (const std::string& token : tokens) of_tokens.add(token);
  const auto word_bytes = exact(of_words.bytes), token_bytes = exact(of_tokens.bytes);
  const KeptTokens kept =
      drop_least_needed({word_bytes.get(), of_words.offsets.data(), words.size()}, counts.data(),
                        {token_bytes.get(), of_tokens.offsets.data(), tokens.size()}, options);
  expect(kept.status == FewestTokensStatus::kOk, "it is a vocabulary");
  return kept.places;
}

size_t count_fewest(const std::string& word, const std::map<std::string, int32_t>& tokens) {
  std::vector<size_t> fewest{0};
  for (size_t end = 1; end <= word.size(); ++end) {
    fewest.push_back(end);
    for (size_t start = 0; start < end; ++start) {
      if (tokens.contains(word.substr(start, end - start)))
        fewest[end] = std::min(fewest[end], fewest[start] + 1);
    }
  }
  return fewest.back();
}

std::vector<int32_t> drop_by_definition(const std::vector<std::string>& words,
                                        const std::vector<uint64_t>& counts,
                                        const std::vector<std::string>& tokens, size_t num_kept) {
  std::map<std::string, int32_t> kept;
  for (const std::string& token : tokens) kept[token] = static_cast<int32_t>(kept.size());
  while (kept.size() > std::max<size_t>(num_kept, 256)) {
    std::vector<std::pair<uint64_t, int32_t>> losses;  // and minus the place
    for (const auto& [token, place] : kept) {
      if (token.size() == 1) continue;
      std::map<std::string, int32_t> others = kept;
      others.erase(token);
      uint64_t loss = 0;
      for (size_t i = 0; i < words.size(); ++i)
        loss += counts[i] * (count_fewest(words[i], others) - count_fewest(words[i], kept));
      losses.emplace_back(loss, -place);
    }
    std::sort(losses.begin(), losses.end());
    const size_t num = std::min(std::max<size_t>(losses.size() / 4, 1), kept.size() - num_kept);
    for (size_t i = 0; i < num; ++i) kept.erase(tokens[static_cast<size_t>(-losses[i].second)]);
  }
  std::vector<int32_t> places;
  for (const auto& [token, place] : kept) places.push_back(place);
  std::sort(places.begin(), places.end());
  return places;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Input input(data, size);
  const size_t num_letters = 1 + input.below(3);
  const auto take = [&](size_t length) {
    std::string text;
    for (size_t i = 0; i < length; ++i) text += static_cast<char>('a' + input.below(num_letters));
    return text;
  };
  std::vector<std::string> tokens;
  for (int byte = 0; byte < 256; ++byte) tokens.push_back(std::string(1, static_cast<char>(byte)));
  std::set<std::string> longer;
  for (size_t i = input.below(16); i > 0; --i) longer.insert(take(2 + input.below(4)));
  tokens.insert(tokens.begin() + static_cast<ptrdiff_t>(input.below(257)), longer.begin(), longer.end());
  FewestTokensOptions options{.num_kept = 250 + input.below(24)};
  std::vector<std::string> words;
  std::vector<uint64_t> counts;
  while (input.left() > 0 && words.size() < 12) {
    counts.push_back(input.byte());
    const size_t length = input.byte();
    words.push_back(take(length % 14));
    if (length >= 250) {  // a long one, which holds its tokens many times
      const std::string once = words.back();
      for (int i = 0; i < 20; ++i) words.back() += once;
    }
  }
  const std::vector<int32_t> kept = drop(words, counts, tokens, options);
  expect(kept == drop_by_definition(words, counts, tokens, std::max<size_t>(options.num_kept, 256)),
         "the tokens that stay are those of the definition");
  for (size_t i = words.size(); i-- > 0;) {
    words.push_back(words[i]);
    counts.push_back(counts[i] / 3);
    counts[i] -= counts.back();
  }
  options.threads = 3;
  expect(drop(words, counts, tokens, options) == kept, "the cut of counts and threads change nothing");
  return 0;
}
