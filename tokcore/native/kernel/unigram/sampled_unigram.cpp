#include "unigram/sampled_unigram.h"

#include <algorithm>
#include <string_view>
#include <utility>

namespace tokcore {
namespace {

constexpr double kStep = 0x1p200;  // sums stay between 1 / kStep and kStep

// kStep^exponent, for an exponent of at most 0.
double raise_step(int64_t exponent) {
  double power = 1;
  for (; exponent < 0 && power > 0; ++exponent) power *= 1 / kStep;
  return power;
}

// Of text that is not UTF-8, too, the first byte begins a character.
bool begins_character(const uint8_t* text, size_t at) { return at == 0 || (text[at] & 0xC0) != 0x80; }

bool is_space_at(const uint8_t* text, size_t size, size_t at) {
  return size - at >= 3 && text[at] == 0xE2 && text[at + 1] == 0x96 && text[at + 2] == 0x81;
}

}  // namespace

bool SampledUnigram::build(const uint8_t* data, const int64_t* offsets, const int32_t* ids,
                           const double* weights, const int32_t* scales, size_t num_pieces,
                           int32_t unknown_id, const int32_t* byte_ids, Words words, bool fuses) {
  std::vector<uint8_t> backwards(data + offsets[0], data + offsets[num_pieces]);
  std::vector<PieceTrie::Entry> entries(num_pieces);
  for (size_t i = 0; i < num_pieces; ++i) {
    const auto begin = static_cast<size_t>(offsets[i] - offsets[0]);
    const auto end = static_cast<size_t>(offsets[i + 1] - offsets[0]);
    if (begin == end) return false;
    std::reverse(backwards.begin() + static_cast<ptrdiff_t>(begin),
                 backwards.begin() + static_cast<ptrdiff_t>(end));
    const std::string_view text(reinterpret_cast<const char*>(backwards.data()) + begin, end - begin);
    entries[i] = {text, static_cast<uint32_t>(i), 0};
  }
  std::vector<std::string_view> sorted;
  for (const PieceTrie::Entry& entry : entries) sorted.push_back(entry.text);
  std::sort(sorted.begin(), sorted.end());
  if (std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end()) return false;
  trie_.build(std::move(entries));
  ids_.assign(ids, ids + num_pieces);
  weights_.assign(weights, weights + num_pieces + 1);
  scales_.assign(scales, scales + num_pieces + 1);
  unknown_id_ = unknown_id;
  if (byte_ids != nullptr) byte_ids_.assign(byte_ids, byte_ids + 256);
  words_ = words;
  fuses_ = fuses;
  return true;
}

size_t SampledUnigram::encode(const uint8_t* text, size_t size, Draws& draws, Scratch& scratch,
                              std::vector<int32_t>* ids) const {
  size_t num_words = 0;
  bool was_unknown = false;
  for (size_t begin = 0, end; begin < size; begin = end) {
    end = size;
    if (words_ == Words::kEverySpace) {
      for (end = begin + 1; end < size && !is_space_at(text, size, end);) ++end;
    }
    if (!fuses_) was_unknown = false;
    encode_word(text + begin, end - begin, draws, scratch, &was_unknown, ids);
    ++num_words;
  }
  return num_words;
}

void SampledUnigram::find_edges(const uint8_t* text, size_t size, size_t end, Scratch& scratch) const {
  scratch.edges.clear();
  uint32_t node = PieceTrie::kRoot;
  size_t start = end;
  size_t character = end;  // where the one that ends here begins
  bool is_known = false;
  while (start > 0) {
    --start;
    if (character == end && begins_character(text, start)) character = start;
    node = trie_.child(node, text[start]);
    if (node == PieceTrie::kNone) break;
    const uint32_t piece = trie_.piece(node);
    if (piece == PieceTrie::kNone) continue;
    scratch.edges.push_back({static_cast<uint32_t>(start), piece, weights_[piece], scales_[piece]});
    is_known = is_known || start == character;
  }
  std::reverse(scratch.edges.begin(), scratch.edges.end());
  if (is_known || (end < size && !begins_character(text, end))) return;
  while (character == end && start > 0) {
    if (begins_character(text, --start)) character = start;
  }
  if (character < end)
    scratch.edges.push_back({static_cast<uint32_t>(character), kUnknown, weights_.back(), scales_.back()});
}

void SampledUnigram::encode_word(const uint8_t* text, size_t size, Draws& draws, Scratch& scratch,
                                 bool* was_unknown, std::vector<int32_t>* ids) const {
  auto& sums = scratch.sums;
  auto& scales = scratch.scales;
  auto& edges = scratch.edges;
  sums.assign(size + 1, 0);
  scales.assign(size + 1, 0);
  sums[0] = 1;
  const auto find_scale = [&] {
    int64_t scale = INT64_MIN;
    for (const Scratch::Edge& edge : edges) scale = std::max(scale, scales[edge.start] + edge.scale);
    return scale;
  };
  const auto weigh = [&](const Scratch::Edge& edge, int64_t scale) {
    return sums[edge.start] * edge.weight * raise_step(scales[edge.start] + edge.scale - scale);
  };
  for (size_t end = 1; end <= size; ++end) {
    find_edges(text, size, end, scratch);
    if (edges.empty()) continue;
    int64_t scale = find_scale();
    double sum = 0;
    for (const Scratch::Edge& edge : edges) sum += weigh(edge, scale);
    for (; sum > 0 && sum < 1 / kStep; --scale) sum *= kStep;
    for (; sum > kStep; ++scale) sum *= 1 / kStep;
    sums[end] = sum;
    scales[end] = scale;
  }

  auto& cut = scratch.cut;
  auto& ends = scratch.ends;
  cut.clear();
  ends.clear();
  for (size_t end = size; end > 0;) {
    find_edges(text, size, end, scratch);
    const int64_t scale = find_scale();
    double total = 0;
    scratch.shares.clear();
    for (const Scratch::Edge& edge : edges) {
      scratch.shares.push_back(weigh(edge, scale));
      total += scratch.shares.back();
    }
    double left = static_cast<double>(draws.next()) * 0x1p-64 * total;
    size_t chosen = edges.size() - 1;
    for (size_t i = 0; i < edges.size(); ++i) {
      left -= scratch.shares[i];
      if (left < 0) {
        chosen = i;
        break;
      }
    }
    cut.push_back(edges[chosen]);
    ends.push_back(static_cast<uint32_t>(end));
    end = edges[chosen].start;
  }
  for (size_t i = cut.size(); i-- > 0;) {
    if (cut[i].piece != kUnknown) {
      ids->push_back(ids_[cut[i].piece]);
    } else if (!byte_ids_.empty()) {
      for (uint32_t at = cut[i].start; at < ends[i]; ++at) ids->push_back(byte_ids_[text[at]]);
    } else if (!*was_unknown) {
      ids->push_back(unknown_id_);
    }
    *was_unknown = cut[i].piece == kUnknown;
  }
}

}  // namespace tokcore
