#include "decode/token_table.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <utility>

namespace tokcore {

namespace {

constexpr size_t kWide = 16;        // bytes that are copied at once: most tokens are shorter
constexpr size_t kMostSparse = 4;   // slots for each token, up to which slots are ids
constexpr size_t kFewSlots = 1024;  // that are always taken

}  // namespace

TokenTable::TokenTable(const int32_t* ids, size_t num, const uint8_t* data, const int64_t* offsets,
                       const uint8_t* flags, bool drops_all)
    : drops_all_(drops_all) {
  std::vector<std::pair<int32_t, uint32_t>> placed(num);
  for (size_t i = 0; i < num; ++i) placed[i] = {ids[i], static_cast<uint32_t>(i)};
  std::sort(placed.begin(), placed.end());
  size_t kept = 0;
  for (size_t i = 0; i < num; ++i) {  // of equal ids the last
    if (i + 1 == num || placed[i + 1].first != placed[i].first) placed[kept++] = placed[i];
  }
  placed.resize(kept);
  end_ = placed.empty() ? 0 : int64_t{placed.back().first} + 1;
  const bool is_dense = static_cast<size_t>(end_) <= kMostSparse * placed.size() + kFewSlots;
  const size_t num_slots = is_dense ? static_cast<size_t>(end_) : placed.size();
  size_t size = 0;
  for (const auto& [id, i] : placed) size += static_cast<size_t>(offsets[i + 1] - offsets[i]);
  if (size > kOffsetMask) throw std::length_error("tokens have 2**28 bytes or more");
  words_.reserve(num_slots + 2);
  data_.reserve(size + kWide);
  if (!is_dense) ids_.reserve(num_slots);
  const auto begin_slot = [&](uint32_t bits) {
    words_.push_back(static_cast<uint32_t>(data_.size()) | bits << kOffsetBits);
  };
  for (const auto& [id, i] : placed) {
    if (is_dense) {
      while (words_.size() < static_cast<size_t>(id)) begin_slot(kUnused);
    } else {
      ids_.push_back(id);
    }
    begin_slot(flags[i] & (kMarked | kSilent | kEnds));
    data_.insert(data_.end(), data + offsets[i], data + offsets[i + 1]);
  }
  begin_slot(kUnused);
  begin_slot(kUnused);
  data_.resize(size + kWide);
}

size_t TokenTable::size_bytes() const {
  return words_.capacity() * sizeof(uint32_t) + ids_.capacity() * sizeof(int32_t) + data_.capacity();
}

template <bool kIsDense>
size_t TokenTable::find(int32_t id) const {
  const size_t none = words_.size() - 2;
  if constexpr (kIsDense) return std::min(static_cast<size_t>(static_cast<uint32_t>(id)), none);
  const auto at = std::lower_bound(ids_.begin(), ids_.end(), id);
  return at != ids_.end() && *at == id ? static_cast<size_t>(at - ids_.begin()) : none;
}

template <bool kIsDense>
size_t TokenTable::measure_as(const int32_t* ids, size_t num, size_t* size) const {
  size_t sum = 0;
  for (size_t i = 0; i < num; ++i) {
    const size_t slot = find<kIsDense>(ids[i]);
    if (flags(slot) & kUnused) return i;
    sum += length(slot);
  }
  *size = sum;
  return kAllKnown;
}

size_t TokenTable::measure(const int32_t* ids, size_t num, size_t* size) const {
  return ids_.empty() ? measure_as<true>(ids, num, size) : measure_as<false>(ids, num, size);
}

size_t TokenTable::head(const int32_t* ids, size_t num) const {
  size_t dropped = 0;
  for (size_t i = 0; i < num; ++i) {
    const size_t slot = find_any(ids[i]);
    if (flags(slot) & kSilent) continue;
    const size_t marked = flags(slot) & kMarked;
    dropped += marked;
    if ((marked && !drops_all_) || length(slot) > marked) break;
  }
  return dropped;
}

size_t TokenTable::tail(const int32_t* ids, size_t num) const {
  return num != 0 && (flags(find_any(ids[num - 1])) & kEnds) ? 1 : 0;
}

template <bool kIsDense>
void TokenTable::write_as(const int32_t* ids, size_t num, size_t skipped, uint8_t* out,
                          const uint8_t* end) const {
  for (size_t i = 0; i < num; ++i) {
    const size_t slot = find<kIsDense>(ids[i]);
    const uint8_t* source = data_.data() + begin(slot);
    size_t left = length(slot);
    const auto room = static_cast<size_t>(end - out);
    if (skipped == 0 && left <= kWide && room >= kWide) {
      std::memcpy(out, source, kWide);  // what is beyond the token, the next one overwrites
      out += left;
      continue;
    }
    const size_t gone = std::min(skipped, left);
    skipped -= gone;
    left = std::min(left - gone, room);
    if (left != 0) std::memcpy(out, source + gone, left);
    out += left;
  }
}

void TokenTable::write(const int32_t* ids, size_t num, size_t skipped, uint8_t* out,
                       const uint8_t* end) const {
  if (ids_.empty()) {
    write_as<true>(ids, num, skipped, out, end);
  } else {
    write_as<false>(ids, num, skipped, out, end);
  }
}

TokenTable::Span TokenTable::spell(int32_t id) const {
  const size_t slot = find_any(id);
  return {data_.data() + begin(slot), length(slot)};
}

}  // namespace tokcore
