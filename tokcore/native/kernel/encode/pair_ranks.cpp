#include "encode/pair_ranks.h"

#include <algorithm>
#include <bit>
#include <numeric>

namespace tokcore {
namespace {

constexpr uint64_t kNoPair = UINT64_MAX;  // the key of kNoSymbol twice
constexpr size_t kPairsPerBucket = 4;
constexpr size_t kNumBytePairs = size_t{256} * 256;

bool is_of_bytes(const PairRanks::Entry& entry) { return ((entry.key | entry.key >> 32) & 0xFFFFFFFF) < 256; }

}  // namespace

void PairRanks::build(const std::vector<Entry>& entries) {
  std::vector<Entry> others;
  for (const Entry& entry : entries) {
    if (!is_of_bytes(entry)) others.push_back(entry);
  }
  const size_t size = std::bit_ceil(std::max<size_t>(others.size() + others.size() / 4, 16));
  mask_ = size - 1;
  const size_t num_buckets = std::max<size_t>(std::bit_ceil(others.size() / kPairsPerBucket), 2);
  bucket_shift_ = 64 - static_cast<unsigned>(std::countr_zero(num_buckets));
  memory_ =
      ZeroedMemory(size * sizeof(Entry) + kNumBytePairs * sizeof(int32_t) + num_buckets * sizeof(uint16_t));
  entries_ = reinterpret_cast<Entry*>(memory_.data());
  of_bytes_ = reinterpret_cast<int32_t*>(entries_ + size);
  shifts_ = reinterpret_cast<uint16_t*>(of_bytes_ + kNumBytePairs);
  std::fill_n(of_bytes_, kNumBytePairs, kNoRank);
  for (const Entry& entry : entries) {
    if (is_of_bytes(entry)) of_bytes_[entry.key >> 24 | (entry.key & 0xFF)] = entry.rank;
  }
  for (seed_ = 0xA0761D6478BD642Fu; !try_build(others); seed_ += 0x9E3779B97F4A7C15u) {
  }
}

// Finds for each bucket, the largest first, the first shift that puts all its pairs on free places (hash and
// displace: Belazzougui, Botelho, Dietzfelbinger 2009). False if a bucket has no such shift.
bool PairRanks::try_build(const std::vector<Entry>& entries) {
  const size_t num_buckets = size_t{1} << (64 - bucket_shift_);
  struct Hashed {
    uint64_t hash;
    const Entry* entry;
  };
  // Deal the entries to buckets, in their order.
  std::vector<uint32_t> ends(num_buckets + 1, 0);
  for (const Entry& entry : entries) ++ends[(hash_of(entry.key) >> bucket_shift_) + 1];
  std::partial_sum(ends.begin(), ends.end(), ends.begin());
  std::vector<Hashed> hashed(entries.size());
  for (const Entry& entry : entries) {
    const uint64_t hash = hash_of(entry.key);
    hashed[ends[hash >> bucket_shift_]++] = {hash, &entry};
  }
  struct Bucket {
    size_t first;
    size_t size;
  };
  std::vector<Bucket> buckets;
  for (size_t i = 0, first = 0; i < num_buckets; first = ends[i++]) {
    // Of entries with the same key, the last one takes the place of the first.
    size_t kept = first;
    for (size_t at = first; at < ends[i]; ++at) {
      size_t place = first;
      while (place < kept && hashed[place].entry->key != hashed[at].entry->key) ++place;
      hashed[place] = hashed[at];
      kept = std::max(kept, place + 1);
    }
    if (kept != first) buckets.push_back({first, kept - first});
  }
  std::stable_sort(buckets.begin(), buckets.end(),
                   [](const Bucket& a, const Bucket& b) { return a.size > b.size; });
  std::fill_n(entries_, mask_ + 1, Entry{kNoPair, kNoRank});
  std::fill_n(shifts_, num_buckets, uint16_t{0});
  for (const Bucket& bucket : buckets) {
    uint64_t shift = 0;
    for (;; ++shift) {
      if (shift > UINT16_MAX) return false;
      size_t placed = 0;
      for (; placed < bucket.size; ++placed) {
        const Hashed& pair = hashed[bucket.first + placed];
        Entry& entry = entries_[(pair.hash ^ shift * 0xD6E8FEB86659FD93u) & mask_];
        if (entry.key != kNoPair) break;
        entry = *pair.entry;
      }
      if (placed == bucket.size) break;
      while (placed-- > 0) {
        const Hashed& pair = hashed[bucket.first + placed];
        entries_[(pair.hash ^ shift * 0xD6E8FEB86659FD93u) & mask_] = {kNoPair, kNoRank};
      }
    }
    shifts_[hashed[bucket.first].hash >> bucket_shift_] = static_cast<uint16_t>(shift);
  }
  return true;
}

}  // namespace tokcore
