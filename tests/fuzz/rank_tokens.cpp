// Vocabularies in the order of ranks, empty and equal tokens among them: parts join to their token, and are
// those of the definition.
#include <map>

#include "encode/rank_merges.h"
#include "input.h"

namespace {

using namespace tokcore;
using namespace tokcore::fuzz;

// The two tokens that a token comes down to, or -1, -1.
std::pair<int32_t, int32_t> parts_of(const std::map<std::string, int32_t>& numbers, const std::string& token,
                                     int32_t rank) {
  std::vector<std::string> parts;
  for (const char byte : token) parts.emplace_back(1, byte);
  const auto number = [&](const std::string& bytes) {
    const auto found = numbers.find(bytes);
    return found == numbers.end() ? -1 : found->second;
  };
  while (parts.size() > 2) {
    int32_t best = rank;
    size_t at = 0;
    for (size_t i = 0; i + 1 < parts.size(); ++i) {
      const int32_t joined = number(parts[i] + parts[i + 1]);
      if (joined >= 0 && joined < best) {
        best = joined;
        at = i;
      }
    }
    if (best == rank) return {-1, -1};
    parts[at] += parts[at + 1];
    parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(at) + 1);
  }
  return {number(parts[0]), number(parts[1])};
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Input input(data, size);
  const bool letters = input.flag();
  std::string bytes;
  std::vector<int64_t> offsets{0};
  std::vector<std::string> tokens;
  std::map<std::string, int32_t> numbers;
  bool sound = true;
  while (input.left() > 0 && tokens.size() < 80) {
    const uint8_t shape = input.byte();
    std::string token(input.take(shape % 8));
    if (letters)
      for (char& byte : token) byte = static_cast<char>('a' + static_cast<uint8_t>(byte) % 3);
    if (shape >= 128 && !tokens.empty()) token += tokens[shape % tokens.size()];
    if (token.size() > 100) token.resize(100);
    if (shape % 64 != 63 && (token.empty() || numbers.contains(token))) continue;
    sound = sound && !token.empty() && !numbers.contains(token);
    numbers[token] = static_cast<int32_t>(tokens.size());
    bytes += token;
    offsets.push_back(static_cast<int64_t>(bytes.size()));
    tokens.push_back(std::move(token));
  }
  const auto text = exact(bytes);
  const RankedTokens ranked{text.get(), offsets.data(), tokens.size()};
  const RankMerges merges = rank_merges(ranked), parts = rank_parts(ranked);
  for (size_t i = 0; i < merges.left.size(); ++i) {
    const auto token = [&](int32_t number) { return tokens.at(static_cast<size_t>(number)); };
    expect(token(merges.left[i]) + token(merges.right[i]) == token(merges.result[i]),
           "two parts are the token");
  }
  if (!sound) return 0;
  size_t row = 0;
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i].size() < 2) continue;
    const auto expected = parts_of(numbers, tokens[i], static_cast<int32_t>(i));
    expect(row < parts.result.size() && parts.result[row] == static_cast<int32_t>(i) &&
               std::pair(parts.left[row], parts.right[row]) == expected,
           "parts are those of the definition");
    ++row;
  }
  expect(row == parts.result.size(), "as many rows as longer tokens");
  return 0;
}
