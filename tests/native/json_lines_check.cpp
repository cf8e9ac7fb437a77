// Reads damaged JSON lines out of buffers that end where they end: run under the sanitizers.
//   json_lines_check ROUNDS
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "text/json_lines.h"

namespace {

const char* const kPieces[] = {"{",
                               "}",
                               "[",
                               "]",
                               ":",
                               ",",
                               "\"",
                               "\\",
                               " ",
                               "\n",
                               "\r",
                               "\"text\"",
                               "\"id\"",
                               "\"lang\"",
                               "\"a\"",
                               "\"en\"",
                               "\\u",
                               "\\u00e9",
                               "\\ud83d\\ude00",
                               "\\ud800",
                               "\\n",
                               "12",
                               "-0",
                               "1e9",
                               ".5",
                               "true",
                               "null",
                               "\xc3\xa9",
                               "\xe4\xb8\xad",
                               "\xf0\x9f\x98\x80",
                               "\xe4\xb8",
                               "\xff",
                               "plain text of some length",
                               "{\"text\":\"",
                               "\"}\n",
                               "{\"text\":\"a\",\"id\":\"k\",\"lang\":\"en\"}\n",
                               "{\"a\":{\"b\":\"",
                               "[[[[[[[[[[[[[[[[[[[["};

bool check(bool holds, const char* what) {
  if (!holds) std::fprintf(stderr, "failed: %s\n", what);
  return holds;
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 1000;
  std::mt19937 random(1);
  const auto below = [&random](size_t limit) { return random() % limit; };
  uint64_t num_documents = 0;
  for (int round = 0; round < rounds; ++round) {
    tokcore::JsonLineSettings settings{"text", "id", "lang", {}, size_t{1} << 20, 64, {}};
    if (below(2) == 0) settings.id = settings.lang = "";
    if (below(4) == 0) settings.text = "a.b";
    if (below(4) == 0) settings.forbidden = {"text o"};
    if (below(2) == 0) settings.values = {"n", "a.b"};
    tokcore::JsonLines reader(settings);
    reader.know_lang("en");
    std::string content;
    for (size_t i = below(40); i > 0; --i) content += kPieces[below(std::size(kPieces))];
    // Exactly as large as its content, so that one byte too far is seen.
    const std::vector<uint8_t> data(content.begin(), content.end());
    size_t position = 0;
    while (position < data.size()) {
      tokcore::JsonDocuments documents;
      const tokcore::JsonLinesResult result =
          reader.read(data.data(), position, data.size(), 1 + below(200), 1 + below(5), &documents);
      num_documents += documents.text_offsets.size() - 1;
      if (!check(result.position >= position && result.position <= data.size(), "position in range") ||
          !check(!result.refused || (result.line_end > result.position && result.line_end <= data.size()),
                 "refused line in range") ||
          !check(result.refused || result.position > position, "progress") ||
          !check(documents.texts.size() == static_cast<size_t>(documents.text_offsets.back()), "texts end") ||
          !check(documents.ids.size() == static_cast<size_t>(documents.id_offsets.back()), "ids end") ||
          !check(documents.id_offsets.size() == documents.text_offsets.size(), "an id a document") ||
          !check(tokcore::is_utf8(documents.texts.data(), documents.texts.data() + documents.texts.size()),
                 "UTF-8"))
        return 1;
      position = result.refused ? result.line_end + 1 : result.position;
    }
  }
  if (!check(num_documents > static_cast<uint64_t>(rounds) / 20, "some lines are accepted")) return 1;
  std::printf("%d rounds, %llu documents\n", rounds, static_cast<unsigned long long>(num_documents));
  return 0;
}
