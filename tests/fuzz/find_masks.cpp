// Any bytes: spans lie within the text, each preset finds what it finds alone, and again after a line of
// text.
#include "input.h"
#include "text/mask_finder.h"

namespace {

using namespace tokcore;
using namespace tokcore::fuzz;

struct Span {
  size_t start, end, preset;
  bool operator==(const Span&) const = default;
};

std::vector<Span> found(uint32_t presets, std::string_view content) {
  const auto text = exact(content);
  std::vector<MaskedSpan> spans;
  MaskFinder(presets).find(text.get(), content.size(), &spans);
  std::vector<Span> result;
  for (const MaskedSpan& span : spans)
    result.push_back({span.start, span.end, static_cast<size_t>(span.preset)});
  return result;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Input input(data, size);
  const uint32_t presets = input.byte();
  const std::string_view text = input.rest();
  const std::vector<Span> together = found(presets, text);
  std::vector<size_t> ends(kNumMaskPresets, 0);
  size_t previous = 0;
  for (const Span& span : together) {
    expect(span.start < span.end && span.end <= text.size(), "a span is within the text and not empty");
    expect(span.preset < kNumMaskPresets && (presets >> span.preset & 1) != 0,
           "only chosen presets are found");
    expect(span.start >= ends[span.preset] && span.start >= previous,
           "spans ascend, without overlap of a preset");
    ends[span.preset] = span.end;
    previous = span.start;
  }
  for (size_t preset = 0; preset < kNumMaskPresets; ++preset) {
    if ((presets >> preset & 1) == 0) continue;
    std::vector<Span> of_preset;
    for (const Span& span : together)
      if (span.preset == preset) of_preset.push_back(span);
    expect(found(1u << preset, text) == of_preset, "a preset finds alone what it finds beside others");
  }
  return 0;
}
