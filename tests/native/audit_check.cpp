// The mask finder, the id counter, MuHash, HighwayHash, varints, parts and lists of ids on random input,
// against plain ways of saying the same. Every text lies at the end of a heap block of its own size, so that
// a byte read after it is an error of the address sanitizer.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "count/id_counter.h"
#include "digest/highway_hash.h"
#include "digest/muhash.h"
#include "shards/id_parts.h"
#include "shards/id_replacer.h"
#include "shards/varints.h"
#include "text/mask_finder.h"

namespace {

std::mt19937_64 chance(7);

size_t below(size_t limit) { return chance() % limit; }

void expect(bool holds, const char* what) {
  if (holds) return;
  std::printf("not so: %s\n", what);
  std::exit(1);
}

std::string random_text() {
  static constexpr std::string_view kParts[] = {"@",
                                                "a.de",
                                                "+1 (4",
                                                "4111 1111 1111 1111",
                                                "1.2.3.",
                                                "DE89",
                                                " 3704",
                                                "-----BEGIN ",
                                                "PRIVATE KEY",
                                                "-----",
                                                "sk-",
                                                "AKIA",
                                                "0123456789ABCDEFGHIJ",
                                                "eyJ",
                                                ".",
                                                "://",
                                                ":",
                                                "-----END ",
                                                "(415) ",
                                                "555-2",
                                                "github_pat_",
                                                "GB82WEST12345698765432",
                                                " BLOCK",
                                                "255.",
                                                "\xE2\x80",
                                                "_",
                                                "-"};
  std::string text;
  for (size_t parts = below(12); parts-- > 0;) {
    if (below(4) == 0) {
      text += static_cast<char>(below(256));
    } else {
      text += kParts[below(std::size(kParts))];
    }
  }
  return text.substr(0, below(text.size() + 1));
}

void check_masks() {
  const std::string text = random_text();
  const auto copy = std::make_unique<uint8_t[]>(text.size());
  std::copy(text.begin(), text.end(), copy.get());
  const auto presets = static_cast<uint32_t>(below(1 << tokcore::kNumMaskPresets));
  std::vector<tokcore::MaskedSpan> spans;
  tokcore::MaskFinder(presets).find(copy.get(), text.size(), &spans);
  std::map<tokcore::MaskPreset, size_t> ends;
  for (const auto& span : spans) {
    expect(span.start < span.end && span.end <= text.size(), "a span is within the text and not empty");
    expect((presets >> static_cast<unsigned>(span.preset) & 1) != 0, "only chosen presets are found");
    expect(span.start >= ends[span.preset], "spans of a preset do not overlap and ascend");
    ends[span.preset] = span.end;
  }
  // Each preset finds the same whichever others are chosen.
  for (size_t preset = 0; preset < tokcore::kNumMaskPresets; ++preset) {
    if ((presets >> preset & 1) == 0) continue;
    std::vector<tokcore::MaskedSpan> alone;
    tokcore::MaskFinder(uint32_t{1} << preset).find(copy.get(), text.size(), &alone);
    size_t same = 0;
    for (const auto& span : spans) {
      if (static_cast<size_t>(span.preset) != preset) continue;
      expect(same < alone.size() && alone[same].start == span.start && alone[same].end == span.end,
             "alone as together");
      ++same;
    }
    expect(same == alone.size(), "together as alone");
  }
}

void check_ids(tokcore::IdCounter& counter) {
  static constexpr int32_t kIds[] = {0, 1, 2, 3, 255, 70'000, (1 << 22) - 1, 1 << 22, 2'147'483'647};
  struct Row {
    uint64_t count = 0, documents = 0, most = 0;
  };
  std::map<int32_t, Row> expected;
  for (size_t batches = below(3); batches-- > 0;) {
    std::vector<int32_t> ids;
    std::vector<int64_t> offsets{0};
    for (size_t documents = below(5); documents-- > 0;) {
      std::map<int32_t, uint64_t> of_document;
      for (size_t n = below(below(8) == 0 ? 5000 : 9); n-- > 0;) {
        ids.push_back(below(9) == 0 ? kIds[below(std::size(kIds))] : static_cast<int32_t>(below(40)));
        ++of_document[ids.back()];
      }
      offsets.push_back(static_cast<int64_t>(ids.size()));
      for (const auto& [id, count] : of_document) {
        Row& row = expected[id];
        row = {row.count + count, row.documents + 1, std::max(row.most, count)};
      }
    }
    counter.add(ids.data(), offsets.data(), offsets.size() - 1);
  }
  const tokcore::IdRows rows = counter.take();
  expect(rows.ids.size() == expected.size(), "as many ids");
  size_t at = 0;
  for (const auto& [id, row] : expected) {
    expect(rows.ids[at] == id && rows.counts[at] == row.count && rows.documents[at] == row.documents &&
               rows.max_in_document[at] == row.most,
           "the same figures");
    ++at;
  }
}

// Factors may come in any order, and what was added can be taken away.
void check_muhash() {
  using tokcore::MuHash;
  MuHash::Value values[3];
  for (MuHash::Value& value : values) {
    for (uint8_t& byte : value) byte = below(4) == 0 ? static_cast<uint8_t>(chance()) : 0xFF;
  }
  std::vector<uint8_t> keys(MuHash::kKeyBytes * below(4));
  for (uint8_t& key : keys) key = static_cast<uint8_t>(chance());
  const size_t num_keys = keys.size() / MuHash::kKeyBytes;
  MuHash one(values[0]), other(values[2]);
  one.add(MuHash(values[1]));
  one.add(keys.data(), num_keys);
  one.add(MuHash(values[2]));
  for (size_t i = num_keys; i-- > 0;) other.add(keys.data() + i * MuHash::kKeyBytes, 1);
  other.add(MuHash(values[0]));
  other.add(MuHash(values[1]));
  expect(one.value() == other.value(), "the same in any order");
  one.subtract(MuHash(values[2]));
  one.subtract(keys.data(), num_keys);
  MuHash rest(values[0]);
  rest.add(MuHash(values[1]));
  expect(one.value() == rest.value(), "the rest");
  one.subtract(one);
  expect(one.value() == MuHash().value(), "nothing");
}

// Of ranges that begin and end anywhere, in buffers of just their size; the first vectors that are published.
void check_highway_hash() {
  const tokcore::HighwayKey key = {0x0706050403020100, 0x0F0E0D0C0B0A0908, 0x1716151413121110,
                                   0x1F1E1D1C1B1A1918};
  constexpr uint64_t kPublished[] = {0x907A56DE22C26E53, 0x7EAB43AAC7CDDD78, 0xB8D0569AB0B53D62};
  for (uint8_t size = 0; size < 3; ++size) {
    const std::vector<uint8_t> data = {0, 1, 2};
    expect(tokcore::highway_hash(key, data.data(), size) == kPublished[size], "a published hash");
  }
  std::vector<uint8_t> data(below(200));
  for (uint8_t& byte : data) byte = static_cast<uint8_t>(chance());
  const uint64_t whole = tokcore::highway_hash(key, data.data(), data.size());
  std::vector<uint8_t> moved(data.size() + 1);
  std::copy(data.begin(), data.end(), moved.begin() + 1);
  expect(tokcore::highway_hash(key, moved.data() + 1, data.size()) == whole, "the same at any address");
  if (data.empty()) return;
  data[below(data.size())] ^= static_cast<uint8_t>(1 + below(255));
  expect(tokcore::highway_hash(key, data.data(), data.size()) != whole, "another hash of other bytes");
}

// Ids there and back, and any bytes: read or refused, in buffers of just their size.
void check_varints() {
  std::vector<int32_t> ids(below(40));
  for (int32_t& id : ids) id = static_cast<int32_t>((chance() & 0x7fffffff) >> below(31));
  const std::vector<int64_t> offsets = {0, static_cast<int64_t>(below(ids.size() + 1)),
                                        static_cast<int64_t>(ids.size())};
  tokcore::Buffer<uint8_t> packed;
  tokcore::Buffer<int64_t> bounds, values, counts;
  expect(
      tokcore::pack_varints(ids.data(), offsets.data(), 2, &packed, &bounds) == tokcore::VarintError::kNone,
      "ids are packed");
  std::vector<uint8_t> own(packed.begin(), packed.end());
  expect(
      tokcore::unpack_varints(own.data(), bounds.data(), 2, &values, &counts) == tokcore::VarintError::kNone,
      "and unpacked");
  expect(std::equal(ids.begin(), ids.end(), values.begin(), values.end()), "the same ids");
  expect(counts[0] == offsets[1] && counts[0] + counts[1] == offsets[2], "of the same parts");
  for (uint8_t& byte : own) byte |= static_cast<uint8_t>(below(4) != 0 ? 0x80 : 0);
  const auto size = static_cast<int64_t>(own.size());
  const std::vector<int64_t> places = {0, static_cast<int64_t>(below(own.size() + 1)), size};
  tokcore::unpack_varints(own.data(), places.data(), 2, &values, &counts);
}

// Parts of two sources, narrow and wide, at any address.
void check_id_parts() {
  const size_t shift = below(4);
  std::vector<uint16_t> narrow(below(300));
  std::vector<int32_t> wide(below(300));
  for (uint16_t& id : narrow) id = static_cast<uint16_t>(chance());
  for (int32_t& id : wide) id = static_cast<int32_t>(chance() & 0x7fffffff);
  std::vector<uint8_t> moved[2] = {std::vector<uint8_t>(shift + narrow.size() * 2),
                                   std::vector<uint8_t>(shift + wide.size() * 4)};
  std::copy_n(reinterpret_cast<const uint8_t*>(narrow.data()), narrow.size() * 2, moved[0].begin() + shift);
  std::copy_n(reinterpret_cast<const uint8_t*>(wide.data()), wide.size() * 4, moved[1].begin() + shift);
  const tokcore::IdSource sources[] = {{moved[0].data() + shift, 2}, {moved[1].data() + shift, 4}};
  std::vector<tokcore::IdPart> parts(below(6));
  std::vector<int32_t> expected;
  for (tokcore::IdPart& part : parts) {
    part.source = static_cast<uint32_t>(below(2));
    const size_t size = part.source == 0 ? narrow.size() : wide.size();
    part.start = static_cast<int64_t>(below(size + 1));
    part.end = part.start + static_cast<int64_t>(below(size - static_cast<size_t>(part.start) + 1));
    for (auto i = static_cast<size_t>(part.start); i < static_cast<size_t>(part.end); ++i)
      expected.push_back(part.source == 0 ? narrow[i] : wide[i]);
  }
  std::vector<int32_t> found(expected.size());
  tokcore::copy_parts(sources, parts.data(), parts.size(), found.data());
  expect(found == expected, "parts of ids follow each other");
}

// Lists of ids in the place of ids, of which some are not there.
void check_id_replacer() {
  std::vector<std::vector<int32_t>> lists(1 + below(20));
  std::vector<int32_t> flat;
  std::vector<int64_t> bounds = {0};
  for (std::vector<int32_t>& list : lists) {
    list.resize(below(9));
    for (int32_t& id : list) id = static_cast<int32_t>(chance() & 0x7fffffff);
    flat.insert(flat.end(), list.begin(), list.end());
    bounds.push_back(static_cast<int64_t>(flat.size()));
  }
  const bool is_wild = below(8) == 0;
  std::vector<int32_t> ids(below(3000));
  for (int32_t& id : ids) id = static_cast<int32_t>(is_wild ? chance() : below(lists.size()));
  const auto size = static_cast<int64_t>(ids.size());
  const std::vector<int64_t> offsets = {0, static_cast<int64_t>(below(ids.size() + 1)), size};
  std::vector<int32_t> expected;
  size_t unknown = tokcore::IdReplacer::kNone;
  for (size_t i = 0; i < ids.size() && unknown == tokcore::IdReplacer::kNone; ++i) {
    const auto id = static_cast<size_t>(static_cast<uint32_t>(ids[i]));
    if (id >= lists.size() || lists[id].empty()) {
      unknown = i;
    } else {
      expected.insert(expected.end(), lists[id].begin(), lists[id].end());
    }
  }
  const tokcore::IdReplacer replacer(flat.data(), bounds.data(), lists.size());
  tokcore::IdDocuments found;
  expect(replacer.replace(ids.data(), offsets.data(), 2, &found) == unknown, "the first id without a list");
  if (unknown != tokcore::IdReplacer::kNone) return;
  const int32_t* first = found.ids.data();
  expect(std::equal(expected.begin(), expected.end(), first, first + found.ids.size()),
         "lists follow each other");
  expect(found.offsets.back() == static_cast<int64_t>(expected.size()), "up to the end");
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 1000;
  tokcore::IdCounter counter;
  for (int round = 0; round < rounds; ++round) {
    check_masks();
    if (round % 20 == 0) check_ids(counter);
    if (round % 20 == 0) check_highway_hash();
    check_varints();
    check_id_parts();
    check_id_replacer();
    if (round % 200 == 0) check_muhash();
  }
}
