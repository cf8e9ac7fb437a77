// Any strings, empty and equal ones among them, and any text: those are refused, and of the others the
// longest of the leftmost are found, as by trying all at every place.
#include <set>

#include "input.h"
#include "text/string_finder.h"

using namespace tokcore;
using namespace tokcore::fuzz;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Input input(data, size);
  std::string bytes;
  std::vector<int64_t> offsets{0};
  std::vector<std::string_view> strings;
  std::set<std::string_view> known;
  const size_t num_strings = input.below(20);
  for (size_t i = 0; i < num_strings; ++i) {
    strings.push_back(input.take(input.byte() % 8));
    bytes += strings.back();
    offsets.push_back(static_cast<int64_t>(bytes.size()));
  }
  size_t refused = 0;
  while (refused < num_strings && !strings[refused].empty() && known.insert(strings[refused]).second)
    ++refused;

  StringFinder finder;
  const auto copy = exact(bytes);
  expect(finder.build(copy.get(), offsets.data(), num_strings) == refused, "the first bad string is named");
  if (refused < num_strings) return 0;

  const std::string_view text = input.rest();
  const auto exact_text = exact(text);
  std::vector<FoundString> found;
  finder.find(exact_text.get(), text.size(), &found);
  size_t next = 0;
  for (size_t begin = 0; begin < text.size();) {
    size_t longest = num_strings;
    for (size_t i = 0; i < num_strings; ++i) {
      if (text.substr(begin).starts_with(strings[i]) &&
          (longest == num_strings || strings[i].size() > strings[longest].size()))
        longest = i;
    }
    if (longest == num_strings) {
      ++begin;
      continue;
    }
    const size_t end = begin + strings[longest].size();
    expect(next < found.size() && found[next].start == begin && found[next].end == end &&
               found[next].string == longest,
           "the longest string of the leftmost is found");
    ++next;
    begin = end;
  }
  expect(next == found.size(), "nothing else is found");
  return 0;
}
