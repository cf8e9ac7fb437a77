// Texts and vocabularies of pieces, as SentencePiece and as a tokenizer.json have them: ids are the same for
// any cache and threads; those of a tokenizer.json are those of the definition.
#include <algorithm>
#include <limits>
#include <map>

#include "sentencepiece/sentencepiece_encoder.h"
#include "input.h"

namespace {

using namespace tokcore;
using namespace tokcore::fuzz;

constexpr int32_t kUnknown = 7;
constexpr int32_t kFirstByte = 1000;
constexpr size_t kMaxPieceBytes = 12;  // four letters
constexpr size_t kMaxTail = 500;       // bytes of a text that are taken as they are: the definition is slow
const char* const kLetters[] = {"a", "b", "\xE2\x96\x81", "\xC3\xA9", "\xE6\x97\xA5"};

// Characters of few kinds, so that pieces match.
std::string spell(Input& input, size_t count) {
  std::string text;
  for (size_t i = 0; i < count; ++i) text += kLetters[input.byte() % 5];
  return text;
}

struct PieceSet {
  std::string bytes;
  std::vector<int64_t> offsets{0};
  std::vector<int32_t> ids;
  std::vector<double> scores;
  std::vector<uint8_t> types;
  std::map<std::string, uint32_t> places;
  std::vector<int32_t> byte_ids;

  PieceList list(const uint8_t* data) const {
    return {data,         bytes.size(), offsets.data(),
            ids.size(),   ids.data(),   scores.data(),
            types.data(), kUnknown,     byte_ids.empty() ? nullptr : byte_ids.data()};
  }
};

struct Merges {
  std::vector<uint32_t> left, right, result;
};

std::vector<int32_t> encode(SentencepieceEncoder& encoder, const std::string& text, size_t threads) {
  const auto bytes = exact(text);
  const int64_t offsets[3] = {0, static_cast<int64_t>(text.size()), static_cast<int64_t>(text.size())};
  EncodedBatch encoded;
  const EncodeResult result = encoder.encode({bytes.get(), text.size(), offsets, 2}, threads, &encoded);
  expect(result.status == EncodeStatus::kOk, "the text is encoded");
  expect(encoded.offsets[2] == encoded.offsets[1], "an empty text has no ids");
  return {encoded.ids.data(), encoded.ids.data() + encoded.ids.size()};
}

std::vector<std::string> cut_by_sums(const std::string& word, const PieceSet& vocabulary) {
  double unknown = std::numeric_limits<double>::max();
  for (const double score : vocabulary.scores) unknown = std::min(unknown, score);
  unknown -= 10;
  struct Node {
    double sum = 0;
    size_t start = SIZE_MAX;
  };
  std::vector<Node> nodes(word.size() + 1);
  for (size_t start = 0; start < word.size();) {
    const auto* at = reinterpret_cast<const uint8_t*>(word.data()) + start;
    const size_t width = character_bytes(at, word.size() - start);
    bool has_character = false;
    const auto offer = [&](size_t end, double score) {
      const double sum = nodes[start].sum + score;
      if (nodes[end].start == SIZE_MAX || sum > nodes[end].sum) nodes[end] = {sum, start};
    };
    for (size_t end = start + 1; end <= std::min(word.size(), start + kMaxPieceBytes); ++end) {
      const auto found = vocabulary.places.find(word.substr(start, end - start));
      if (found == vocabulary.places.end()) continue;
      offer(end, vocabulary.scores[found->second]);
      has_character = has_character || end - start == width;
    }
    if (!has_character) offer(start + width, unknown);
    start += width;
  }
  std::vector<std::string> parts;
  for (size_t end = word.size(); end > 0; end = nodes[end].start)
    parts.insert(parts.begin(), word.substr(nodes[end].start, end - nodes[end].start));
  return parts;
}

std::vector<std::string> cut_by_merges(const std::string& word, const PieceSet& vocabulary,
                                       const Merges& merges) {
  std::map<std::pair<uint32_t, uint32_t>, size_t> rank_of;
  for (size_t merge = 0; merge < merges.left.size(); ++merge)
    rank_of.emplace(std::pair{merges.left[merge], merges.right[merge]}, merge);
  std::vector<std::string> parts;
  std::vector<uint32_t> places;  // of the parts in the vocabulary
  const auto place_of = [&](const std::string& part) {
    const auto found = vocabulary.places.find(part);
    return found == vocabulary.places.end() ? UINT32_MAX : found->second;
  };
  for (size_t i = 0; i < word.size(); i += parts.back().size()) {
    const auto* at = reinterpret_cast<const uint8_t*>(word.data()) + i;
    parts.push_back(word.substr(i, character_bytes(at, word.size() - i)));
    places.push_back(place_of(parts.back()));
  }
  for (;;) {
    size_t best = merges.left.size(), at = 0;
    for (size_t i = 0; i + 1 < parts.size(); ++i) {
      const auto found = rank_of.find({places[i], places[i + 1]});
      if (found == rank_of.end() || found->second >= best) continue;
      best = found->second;
      at = i;
    }
    if (best == merges.left.size()) return parts;
    parts[at] += parts[at + 1];
    places[at] = merges.result[best];
    parts.erase(parts.begin() + static_cast<ptrdiff_t>(at) + 1);
    places.erase(places.begin() + static_cast<ptrdiff_t>(at) + 1);
  }
}

std::vector<int32_t> encode_slowly(const std::string& text, const PieceSet& vocabulary, const Merges* merges,
                                   bool splits) {
  std::vector<int32_t> ids;
  for (size_t begin = 0; begin < text.size();) {
    size_t end = splits ? text.find("\xE2\x96\x81", begin + 1) : text.size();
    end = std::min(end, text.size());
    const std::string word = text.substr(begin, end - begin);
    bool was_unknown = false;
    for (const std::string& part :
         merges == nullptr ? cut_by_sums(word, vocabulary) : cut_by_merges(word, vocabulary, *merges)) {
      const auto found = vocabulary.places.find(part);
      if (found != vocabulary.places.end()) {
        ids.push_back(vocabulary.ids[found->second]);
      } else if (!vocabulary.byte_ids.empty()) {
        for (const char byte : part) ids.push_back(kFirstByte + static_cast<uint8_t>(byte));
      } else if (!was_unknown) {
        ids.push_back(kUnknown);
      }
      was_unknown = found == vocabulary.places.end();
    }
    begin = end;
  }
  return ids;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Input input(data, size);
  const bool is_unigram = input.flag(), splits = input.flag(), spells_bytes = input.flag();
  const size_t cache_bytes = size_t{input.byte()} << 8, threads = 1 + input.byte() % 3;
  PieceSet vocabulary;
  const size_t num_pieces = 1 + input.byte() % 16;
  for (size_t i = 0; i < num_pieces; ++i) {
    const std::string piece = spell(input, 1 + input.byte() % 4);
    if (!vocabulary.places.emplace(piece, vocabulary.ids.size()).second) continue;
    vocabulary.bytes += piece;
    vocabulary.offsets.push_back(static_cast<int64_t>(vocabulary.bytes.size()));
    vocabulary.ids.push_back(static_cast<int32_t>(10 + i));
    vocabulary.scores.push_back(-static_cast<double>(input.byte() % 32) / 4);
    vocabulary.types.push_back(static_cast<uint8_t>(PieceType::kNormal));
  }
  for (int32_t byte = 0; spells_bytes && byte < 256; ++byte) vocabulary.byte_ids.push_back(kFirstByte + byte);
  Merges merges;
  for (const auto& [left, left_place] : vocabulary.places) {
    for (const auto& [right, right_place] : vocabulary.places) {
      const auto found = vocabulary.places.find(left + right);
      if (found == vocabulary.places.end()) continue;
      merges.left.push_back(left_place);
      merges.right.push_back(right_place);
      merges.result.push_back(found->second);
    }
  }
  std::string text = spell(input, input.byte() % 64);
  text += std::string(input.take(std::min(input.left(), kMaxTail)));
  const auto pieces = exact(vocabulary.bytes);
  const auto charsmap = exact(std::string());

  const NormalizerRules rules{charsmap.get(), 0, input.flag(), false, true, false};
  std::vector<int32_t> own;
  for (const size_t cache : {cache_bytes, size_t{0}, size_t{1} << 14}) {
    SentencepieceEncoder encoder(cache);
    bool is_charsmap = false;
    expect(encoder.build(vocabulary.list(pieces.get()), rules, is_unigram, &is_charsmap).status ==
               VocabularyStatus::kOk,
           "the vocabulary is taken");
    for (int again = 0; again < 2; ++again) {
      const std::vector<int32_t> ids = encode(encoder, text, threads);
      expect(own.empty() || ids == own, "the cache and the threads change no id");
      own = ids;
    }
  }

  const std::string step_text(input.flag() ? "\xE2\x96\x81" : "");
  for (const size_t cache : {cache_bytes, size_t{0}}) {
    ConvertedRules converted{
        {}, {merges.left.data(), merges.right.data(), merges.result.data(), merges.left.size()}, splits};
    expect(converted.steps.add(static_cast<uint8_t>(StepKind::kPrepend), "", step_text), "the step is taken");
    expect(converted.steps.add(static_cast<uint8_t>(StepKind::kWords), "", ""), "the step is taken");
    SentencepieceEncoder encoder(cache);
    expect(encoder.build_converted(vocabulary.list(pieces.get()), std::move(converted), is_unigram).status ==
               VocabularyStatus::kOk,
           "the vocabulary is taken");
    PaddedBytes normalized;
    const auto bytes = exact(text);
    encoder.normalize(bytes.get(), text.size(), &normalized);
    const std::string clean(reinterpret_cast<const char*>(normalized.data()), normalized.size());
    const std::vector<int32_t> expected =
        encode_slowly(clean, vocabulary, is_unigram ? nullptr : &merges, splits);
    for (int again = 0; again < 2; ++again)
      expect(encode(encoder, text, threads) == expected, "ids are those of the definition");
  }
  return 0;
}
