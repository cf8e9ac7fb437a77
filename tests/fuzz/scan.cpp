// Text in any bytes: all patterns, all implementations, any capacity; and a scan may resume at any end.
#include "input.h"
#include "scan/scanner.h"

namespace {

using namespace tokcore;
using namespace tokcore::fuzz;

std::vector<uint64_t> ends_of(const Scanner& scanner, std::string_view content, size_t capacity) {
  const auto text = exact(content);
  const auto found = std::make_unique<uint64_t[]>(capacity);
  std::vector<uint64_t> ends;
  for (size_t begin = 0; begin < content.size(); begin = ends.back()) {
    const size_t count = scanner.scan(text.get(), content.size(), begin, found.get(), capacity);
    expect(count > 0 && count <= capacity, "a scan goes on, within its room");
    for (size_t i = 0; i < count; ++i) {
      expect(found[i] > (ends.empty() ? 0 : ends.back()) && found[i] <= content.size(), "ends ascend");
      ends.push_back(found[i]);
    }
  }
  return ends;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Input input(data, size);
  const size_t capacity = 1 + input.below(300);
  const size_t resume = input.below(1 << 16);
  const std::string_view text = input.rest();
  for (const char* name :
       {"gpt2", "cl100k", "cl100k-2023", "o200k", "llama3", "qwen2", "nanochat", "tekken", "deepseek"}) {
    const Pattern pattern = *pattern_from_name(name);
    const auto expected = ends_of({pattern, Implementation::kPortable}, text, 1024);
    expect(expected.empty() == text.empty() && (text.empty() || expected.back() == text.size()),
           "every byte belongs to a pre-token");
    for (const Implementation implementation : implementations()) {
      expect(ends_of({pattern, implementation}, text, capacity) == expected,
             "implementations and capacities agree");
    }
    if (expected.empty()) continue;
    const size_t from = resume % expected.size();
    const auto tail = ends_of({pattern, implementations().front()}, text.substr(expected[from]), capacity);
    expect(tail.size() == expected.size() - from - 1, "what comes before decides nothing");
    for (size_t i = 0; i < tail.size(); ++i) {
      expect(tail[i] + expected[from] == expected[from + 1 + i], "what comes before decides nothing");
    }
  }
  return 0;
}
