// Any bytes as the long lists of tokenizer files: what is read has ids and tokens that fit, and a list in its
// canonical form is written again as it was. Any tokens, spelled by their table, are their bytes.
#include <algorithm>
#include <map>
#include <numeric>

#include "decode/token_table.h"
#include "input.h"
#include "text/vocabulary_json.h"

namespace {

using namespace tokcore;
using namespace tokcore::fuzz;

std::string spell(const TokenList& tokens, size_t i) {
  return {reinterpret_cast<const char*>(tokens.token(i)), tokens.token_size(i)};
}

void check_list(const TokenList& tokens) {
  expect(tokens.offsets.size() == tokens.size() + 1 && tokens.offsets.front() == 0 &&
             static_cast<size_t>(tokens.offsets.back()) == tokens.data.size(),
         "offsets fit");
  expect(std::is_sorted(tokens.offsets.begin(), tokens.offsets.end()), "offsets rise");
  expect(std::all_of(tokens.ids.begin(), tokens.ids.end(), [](int32_t id) { return id >= 0; }),
         "ids are ids");
}

void read_bpe(std::string_view content) {
  const size_t cut = std::min(content.find('\0'), content.size());
  const std::string_view merges = content.substr(std::min(cut + 1, content.size()));
  const auto names = exact(content.substr(0, cut)), pairs = exact(merges);
  const auto place = [](const std::unique_ptr<uint8_t[]>& data, size_t size) {
    return JsonPlace{reinterpret_cast<const char*>(data.get()), size, 0};
  };
  const auto found = read_named_bpe(place(names, cut), place(pairs, merges.size()), {"b", "<|end|>"});
  if (!found) return;
  check_list(found->tokens);
  expect(std::is_sorted(found->tokens.ids.begin(), found->tokens.ids.end()), "ids ascend");
  std::multimap<int32_t, std::string> by_id;
  for (size_t i = 0; i < found->tokens.size(); ++i)
    by_id.emplace(found->tokens.ids[i], spell(found->tokens, i));
  const auto find = [&](int32_t id) {
    const auto at = by_id.find(id);
    expect(at != by_id.end(), "a merge is of tokens");
    return at->second;
  };
  expect(found->merges.size() % 2 == 0, "merges are pairs");
  for (size_t i = 0; i < found->merges.size(); i += 2) {
    const std::string left = find(found->merges[i]), right = find(found->merges[i + 1]);
    // Of equal ids any may be meant.
    if (by_id.count(found->merges[i]) > 1 || by_id.count(found->merges[i + 1]) > 1) continue;
    const auto is_made = [&](const auto& token) { return token.second == left + right; };
    expect(std::any_of(by_id.begin(), by_id.end(), is_made), "a merge makes a token");
  }
}

void read_lists(std::string_view content, size_t begin) {
  const auto data = exact(content);
  const JsonPlace place{reinterpret_cast<const char*>(data.get()), content.size(), begin};
  expect(skip_json(place) <= content.size(), "a value ends in the text");
  size_t end = 0;
  if (const auto pairs = read_id_pairs(place, &end)) {
    expect(pairs->size() % 2 == 0 && end > begin && end <= content.size(), "pairs lie in the text");
    expect(write_id_pairs(pairs->data(), pairs->size() / 2) == content.substr(begin, end - begin),
           "pairs are written as they were");
  }
  if (const auto tokens = read_base64_tokens(place, &end)) {
    check_list(*tokens);
    expect(end > begin && end <= content.size(), "tokens lie in the text");
    expect(write_base64_tokens(reinterpret_cast<const uint8_t*>(tokens->data.data()), tokens->offsets.data(),
                               tokens->ids.data(), tokens->size()) == content.substr(begin, end - begin),
           "tokens are written as they were");
  }
}

void join_and_spell(Input& input) {
  std::vector<int32_t> merges(2 * input.below(40));
  for (int32_t& id : merges) id = static_cast<int32_t>(input.below(300)) - 2;
  std::vector<uint8_t> bytes(256);
  for (size_t i = 0; i < 256; ++i) bytes[i] = static_cast<uint8_t>(i);
  const size_t max_token = 1 + input.below(200);
  auto joined = join_merges(bytes.data(), merges.data(), merges.size() / 2, max_token, 1 << 16);
  if (!joined) return;
  expect(joined->ids.empty(), "ids are places");
  joined->ids.resize(joined->offsets.size() - 1);
  std::iota(joined->ids.begin(), joined->ids.end(), 0);
  const TokenList& tokens = *joined;
  check_list(tokens);
  const auto* const data = reinterpret_cast<const uint8_t*>(tokens.data.data());
  const std::vector<int32_t> made = join_pairs(data, tokens.offsets.data(), tokens.ids.data(), tokens.size(),
                                               merges.data(), merges.size() / 2);
  expect(made.size() == merges.size() / 2, "each pair has an answer");

  std::vector<int32_t> spread(tokens.ids);  // far apart, so that they are looked up by bisection
  const int32_t factor = input.flag() ? 1 : 1 << 16;
  for (int32_t& id : spread) id *= factor;
  const std::vector<uint8_t> flags(tokens.size());
  const TokenTable table(spread.data(), tokens.size(), data, tokens.offsets.data(), flags.data(), false);
  std::vector<int32_t> ids;
  std::string expected;
  while (input.left() != 0 && ids.size() < 2000) {
    const size_t i = input.below(tokens.size());
    ids.push_back(spread[i]);
    expected += spell(tokens, i);
  }
  size_t size = 0;
  expect(table.measure(ids.data(), ids.size(), &size) == TokenTable::kAllKnown && size == expected.size(),
         "all ids are known, and their sizes");
  const auto out = std::make_unique<uint8_t[]>(size);
  table.write(ids.data(), ids.size(), 0, out.get(), out.get() + size);
  expect(std::equal(expected.begin(), expected.end(), reinterpret_cast<const char*>(out.get())),
         "ids are their bytes");
  ids.push_back(static_cast<int32_t>(table.end()));
  expect(table.measure(ids.data(), ids.size(), &size) == ids.size() - 1, "an unknown id is found");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Input input(data, size);
  switch (input.byte() % 3) {
    case 0:
      read_bpe(input.rest());
      break;
    case 1: {
      const size_t begin = input.below(3);
      const std::string_view content = input.rest();
      if (begin <= content.size()) read_lists(content, begin);
      break;
    }
    default:
      join_and_spell(input);
  }
  return 0;
}
