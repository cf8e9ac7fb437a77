// Any bytes as JSON lines: well-formed UTF-8 comes out, and the same documents however much is asked for at a
// time, and from each line alone.
#include "text/json_lines.h"

#include "input.h"

namespace {

using namespace tokcore;
using namespace tokcore::fuzz;

struct Document {
  std::string text, id;
  int32_t lang;
  bool operator==(const Document&) const = default;
};

struct Found {
  std::vector<Document> documents;
  std::vector<std::string> refused;
  bool operator==(const Found&) const = default;
};

void read(const JsonLineSettings& settings, std::string_view content, size_t max_bytes, size_t max_documents,
          Found* found) {
  JsonLines reader(settings);
  reader.know_lang("en");
  reader.know_lang("de");
  const auto data = exact(content);
  for (size_t position = 0; position < content.size();) {
    JsonDocuments documents;
    const JsonLinesResult result =
        reader.read(data.get(), position, content.size(), max_bytes, max_documents, &documents);
    const size_t num = documents.text_offsets.size() - 1;
    expect(result.position >= position && result.position <= content.size(), "the position is in the range");
    expect(result.refused || result.position > position, "reading goes on");
    expect(num <= max_documents, "no more documents than asked for");
    expect(static_cast<size_t>(documents.text_offsets.back()) == documents.texts.size() &&
               static_cast<size_t>(documents.id_offsets.back()) == documents.ids.size() &&
               documents.id_offsets.size() == num + 1 &&
               documents.langs.size() == (settings.lang.empty() ? 0 : num),
           "columns fit");
    expect(is_utf8(documents.texts.data(), documents.texts.data() + documents.texts.size()) &&
               is_utf8(documents.ids.data(), documents.ids.data() + documents.ids.size()),
           "texts and ids are well-formed UTF-8");
    for (size_t i = 0; i < num; ++i) {
      const auto part = [i](const std::vector<uint8_t>& bytes, const std::vector<int64_t>& offsets) {
        return std::string(bytes.begin() + offsets[i], bytes.begin() + offsets[i + 1]);
      };
      found->documents.push_back({part(documents.texts, documents.text_offsets),
                                  part(documents.ids, documents.id_offsets),
                                  settings.lang.empty() ? 0 : documents.langs[i]});
      const Document& document = found->documents.back();
      expect(document.text.size() <= settings.max_text_bytes && document.id.size() <= settings.max_id_bytes,
             "limits are kept");
      for (const std::string& text : settings.forbidden)
        expect(document.text.find(text) == std::string::npos, "what is forbidden is refused");
    }
    position = result.position;
    if (!result.refused) continue;
    expect(result.line_end >= position && result.line_end <= content.size(),
           "the refused line is in the range");
    expect(content.substr(position, result.line_end - position).find('\n') == std::string_view::npos,
           "the refused line is one line");
    found->refused.emplace_back(content.substr(position, result.line_end - position));
    position = result.line_end + 1;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Input input(data, size);
  const uint8_t flags = input.byte();
  JsonLineSettings settings{"text", "id", "lang", {}, size_t{1} << 20, 64, {}};
  if ((flags & 1) != 0) settings.id = settings.lang = "";
  if ((flags & 2) != 0) settings.text = "a.b";
  if ((flags & 4) != 0) settings.forbidden = {"text o", "<|end|>"};
  if ((flags & 8) != 0) settings.max_text_bytes = 20;
  if ((flags & 16) != 0) settings.values = {"n", "a.b"};
  const size_t max_bytes = 1 + input.below(300), max_documents = 1 + input.below(6);
  const std::string_view content = input.rest();

  Found at_once, in_steps, one_by_one;
  read(settings, content, size_t{1} << 30, size_t{1} << 30, &at_once);
  read(settings, content, max_bytes, max_documents, &in_steps);
  expect(at_once == in_steps, "how much is asked for at a time changes nothing");
  for (size_t start = 0; start < content.size();) {
    const size_t end = std::min(content.find('\n', start), content.size());
    read(settings, content.substr(start, end - start), 1, 1, &one_by_one);
    start = end + 1;
  }
  expect(at_once == one_by_one, "a line is read as it is alone");
  return 0;
}
