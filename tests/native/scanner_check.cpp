// Compares the scanners of this processor with each other on generated texts, each in memory of exactly its
// size, so that a sanitizer sees every byte read beyond it. Prints what differs and exits 1.
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "scan/scanner.h"

namespace {

const char* const kParts[] = {"a",
                              "s",
                              "L",
                              "B",
                              "'",
                              "'s",
                              "'LL",
                              " ",
                              "  ",
                              "\n",
                              "\r\n",
                              "\t",
                              "\n    ",
                              "1",
                              "23",
                              "!",
                              "/",
                              "-",
                              "\xC3\xA9",
                              "\xD0\x96",
                              "\xD1\x8F",
                              "\xC2\xAA",
                              "\xC2\xA0",
                              "\xE3\x80\x80",
                              "\xE6\x97\xA5",
                              "\xEA\xB0\x80",
                              "\xE0\xB8\x81",
                              "\xE0\xB9\x91",
                              "\xCC\x81",
                              "\xF0\x9F\x98\x80",
                              "\xF0\x90\x90\x80",
                              "\xC5\xBF",
                              "\x80",
                              "\xC3",
                              "\xE2\x82",
                              "\xF0\x9F\x98",
                              "\xED\xA0\x80",
                              "\xF4\x90\x80\x80",
                              "\xFF",
                              "\xC0\x80",
                              "\xE3\x83\xBB",
                              "\xE3\x80\x82"};
const char* const kPatterns[] = {"gpt2",  "cl100k",   "cl100k-2023", "o200k",   "llama3",
                                 "qwen2", "nanochat", "tekken",      "deepseek"};

uint64_t state = 1;

uint32_t random_below(uint32_t bound) {
  state = state * 6364136223846793005u + 1442695040888963407u;
  return static_cast<uint32_t>((state >> 33) % bound);
}

std::string random_text() {
  std::string text;
  const uint32_t num_kinds = 1 + random_below(8);
  std::vector<std::string> kinds;
  for (uint32_t i = 0; i < num_kinds; ++i) kinds.emplace_back(kParts[random_below(std::size(kParts))]);
  const size_t size = random_below(400);
  while (text.size() < size) {
    const std::string& part = kinds[random_below(num_kinds)];
    for (uint32_t n = random_below(8) == 0 ? random_below(80) : 1; n > 0; --n) text += part;
    if (random_below(400) == 0) break;
  }
  if (!text.empty()) text.resize(text.size() - random_below(4) % text.size());
  return text;
}

std::vector<uint64_t> scan(const tokcore::Scanner& scanner, const uint8_t* text, size_t size,
                           size_t capacity) {
  std::vector<uint64_t> ends;
  const auto found = std::make_unique<uint64_t[]>(capacity);
  for (size_t begin = 0; begin < size; begin = ends.back()) {
    const size_t count = scanner.scan(text, size, begin, found.get(), capacity);
    if (count == 0 || count > capacity) std::abort();
    ends.insert(ends.end(), found.get(), found.get() + count);
  }
  return ends;
}

}  // namespace

int main(int argc, char** argv) {
  const long num_texts = argc > 1 ? std::atol(argv[1]) : 10000;
  const size_t capacities[] = {1, 3, 64, 65, 200, 1024};
  for (long i = 0; i < num_texts; ++i) {
    const std::string content = random_text();
    const auto text = std::make_unique<uint8_t[]>(content.size());
    for (size_t k = 0; k < content.size(); ++k) text[k] = static_cast<uint8_t>(content[k]);
    for (const char* name : kPatterns) {
      const tokcore::Pattern pattern = *tokcore::pattern_from_name(name);
      const auto expected =
          scan({pattern, tokcore::Implementation::kPortable}, text.get(), content.size(), 1024);
      for (const tokcore::Implementation implementation : tokcore::implementations()) {
        const auto ends = scan({pattern, implementation}, text.get(), content.size(),
                               capacities[random_below(std::size(capacities))]);
        if (ends == expected && (expected.empty() ? 0 : expected.back()) == content.size()) continue;
        std::printf("%s, %s differs on text %ld:", name, tokcore::name_of(implementation).data(), i);
        for (const unsigned char byte : content) std::printf(" %02x", byte);
        std::printf("\n");
        return 1;
      }
    }
  }
  std::printf("%ld texts\n", num_texts);
  return 0;
}
