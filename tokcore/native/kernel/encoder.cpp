#include "encoder.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>
#include <exception>
#include <thread>

#include "hash.h"
#include "pretoken_cache.h"

namespace tokcore {

// A run of texts and what came of it.
struct Encoder::Range {
  size_t first;
  size_t last;
  IdBuffer ids;
};

// What one thread needs: a cache, and room to put the pre-tokens of a batch side by side, so that looking one
// up in the cache does not wait for the one before.
class Encoder::Worker {
 public:
  Worker(const Encoder& encoder, size_t cache_bytes)
      : model_(encoder.model_), scanner_(encoder.scanner_), cache_(cache_bytes) {}

  size_t cache_bytes() const { return cache_.budget_bytes(); }

  // Appends the ids of texts first to last to ids. starts[i] becomes the number of ids before text i, within
  // ids.
  EncodeResult encode(const TextBatch& texts, const Pieces* pieces, size_t first, size_t last, IdBuffer* ids,
                      int64_t* starts, int64_t* pretokens) {
    ids_ = ids;
    starts_ = starts;
    count_ = num_ended_ = 0;
    limit_ = texts.data + texts.data_size;
    for (size_t i = first; i < last; ++i) {
      const uint8_t* text = texts.data + texts.offsets[i];
      const size_t size = static_cast<size_t>(texts.offsets[i + 1] - texts.offsets[i]);
      const EncodeResult result = pieces != nullptr ? add_pieces(texts, *pieces, i, &pretokens[i])
                                                    : add_text(text, size, i, &pretokens[i]);
      if (result.status != EncodeStatus::kOk) return result;
      if (num_ended_ == kCapacity) flush();
      ended_[num_ended_++] = {i, count_};
    }
    flush();
    return {EncodeStatus::kOk, 0};
  }

 private:
  static constexpr size_t kBatch = 256;
  static constexpr size_t kCapacity = 2 * kBatch;

  struct Pretoken {
    const uint8_t* text;
    size_t size;
    PretokenCache::Key key;  // if the size is at most kMaxShortBytes
  };
  struct EndOfText {
    size_t text;
    size_t count;  // pre-tokens in the batch up to its end
  };

  EncodeResult add_text(const uint8_t* text, size_t size, size_t number, int64_t* pretokens) {
    uint64_t ends[kBatch];
    *pretokens = 0;
    for (size_t begin = 0; begin < size;) {
      const size_t found = scanner_->scan(text, size, begin, ends, kBatch);
      for (size_t i = 0; i < found; ++i) {
        if (ends[i] - begin > BpeModel::kMaxPieceBytes) return {EncodeStatus::kPieceTooLong, number};
        add(text + begin, ends[i] - begin);
        begin = ends[i];
      }
      *pretokens += static_cast<int64_t>(found);
      if (count_ >= kBatch) flush();
    }
    return {EncodeStatus::kOk, 0};
  }

  EncodeResult add_pieces(const TextBatch& texts, const Pieces& pieces, size_t number, int64_t* pretokens) {
    const int64_t first = pieces.firsts[number], last = pieces.firsts[number + 1];
    if (first < 0 || last < first || static_cast<uint64_t>(last) > pieces.num_ends) {
      return {EncodeStatus::kBadPieces, number};
    }
    int64_t begin = texts.offsets[number];
    for (int64_t i = first; i < last; ++i) {
      const int64_t end = pieces.ends[i];
      if (end <= begin || end > texts.offsets[number + 1]) return {EncodeStatus::kBadPieces, number};
      if (static_cast<uint64_t>(end - begin) > BpeModel::kMaxPieceBytes)
        return {EncodeStatus::kPieceTooLong, number};
      add(texts.data + begin, static_cast<size_t>(end - begin));
      begin = end;
      if (count_ >= kBatch) flush();
    }
    if (begin != texts.offsets[number + 1]) return {EncodeStatus::kBadPieces, number};
    *pretokens = last - first;
    return {EncodeStatus::kOk, 0};
  }

  void add(const uint8_t* text, size_t size) {
    Pretoken& pretoken = batch_[count_++];
    pretoken.text = text;
    pretoken.size = size;
    if (size > PretokenCache::kMaxShortBytes) return;
    pretoken.key = cache_.key(text, size, limit_);
    cache_.prefetch(pretoken.key);
  }

  void flush() {
    size_t done = 0;
    for (size_t i = 0; i < num_ended_; ++i) {
      emit(done, ended_[i].count);
      done = ended_[i].count;
      starts_[ended_[i].text + 1] = static_cast<int64_t>(ids_->size());
    }
    emit(done, count_);
    count_ = 0;
    num_ended_ = 0;
  }

  // Appends the ids of a part of the batch.
  void emit(size_t first, size_t last) {
    if (first == last) return;
    ids_->reserve_more(kRoom);
    int32_t* out = ids_->end();
    for (size_t i = first; i < last; ++i) {
      const Pretoken& pretoken = batch_[i];
      if (pretoken.size <= PretokenCache::kMaxShortBytes) {
        const PretokenCache::Entry* entry = cache_.find(pretoken.key);
        if (entry != nullptr && entry->count() <= PretokenCache::kMaxShortIds) {
          std::memcpy(out, entry->ids,
                      sizeof(entry->ids));  // all of them: the next pre-token overwrites the rest
          out += entry->count();
          continue;
        }
        ids_->set_end(out);
        if (entry == nullptr || !append(cache_.in_ring(*entry))) encode_short(pretoken);
      } else {
        ids_->set_end(out);
        encode_long(pretoken);
      }
      ids_->reserve_more(kRoom);
      out = ids_->end();
    }
    ids_->set_end(out);
  }

  bool append(PretokenCache::Ids known) {
    if (known.ids == nullptr) return false;
    ids_->reserve_more(known.count);
    std::memcpy(ids_->end(), known.ids, known.count * sizeof(int32_t));
    ids_->set_end(ids_->end() + known.count);
    return true;
  }

  void encode_short(const Pretoken& pretoken) {
    ids_->reserve_more(pretoken.size);
    const size_t count = model_.encode(pretoken.text, pretoken.size, scratch_, ids_->end());
    cache_.insert(pretoken.key, ids_->end(), count);
    ids_->set_end(ids_->end() + count);
  }

  void encode_long(const Pretoken& pretoken) {
    const bool kept = pretoken.size <= PretokenCache::kMaxLongBytes;
    const uint64_t hash = kept ? hash_bytes(pretoken.text, pretoken.size, limit_) : 0;
    if (kept && append(cache_.find_long(pretoken.text, pretoken.size, hash))) return;
    ids_->reserve_more(pretoken.size);
    const size_t count = model_.encode(pretoken.text, pretoken.size, scratch_, ids_->end());
    if (kept) cache_.insert_long(pretoken.text, pretoken.size, hash, ids_->end(), count);
    ids_->set_end(ids_->end() + count);
  }

  // What emit may write without looking: kMaxShortIds for each pre-token.
  static constexpr size_t kRoom = kCapacity * PretokenCache::kMaxShortIds;

  const BpeModel& model_;
  const std::optional<Scanner>& scanner_;
  PretokenCache cache_;
  PieceScratch scratch_;

  IdBuffer* ids_ = nullptr;
  int64_t* starts_ = nullptr;
  const uint8_t* limit_ = nullptr;
  size_t count_ = 0;
  size_t num_ended_ = 0;
  Pretoken batch_[kCapacity];
  EndOfText ended_[kCapacity];
};

Encoder::Encoder(std::optional<Scanner> scanner, size_t cache_bytes)
    : scanner_(scanner), cache_bytes_(cache_bytes) {}

Encoder::~Encoder() = default;

EncodeResult Encoder::encode(const TextBatch& texts, size_t threads, EncodedBatch* encoded) {
  if (!scanner_) return {EncodeStatus::kNoScanner, 0};
  return run(texts, nullptr, threads, encoded);
}

EncodeResult Encoder::encode_pieces(const TextBatch& texts, const Pieces& pieces, size_t threads,
                                    EncodedBatch* encoded) {
  return run(texts, &pieces, threads, encoded);
}

EncodeResult Encoder::run(const TextBatch& texts, const Pieces* pieces, size_t threads,
                          EncodedBatch* encoded) {
  for (size_t i = 0; i <= texts.num_texts; ++i) {
    const int64_t offset = texts.offsets[i];
    if (offset < (i == 0 ? 0 : texts.offsets[i - 1]) || static_cast<uint64_t>(offset) > texts.data_size) {
      return {EncodeStatus::kBadOffsets, i};
    }
  }
  const int64_t begin = texts.offsets[0];
  const auto total = static_cast<size_t>(texts.offsets[texts.num_texts] - begin);
  encoded->offsets.assign(texts.num_texts + 1, 0);
  encoded->pretokens.assign(texts.num_texts, 0);

  // Ranges of about equal bytes, several for each thread, since texts differ in cost; too small ones are not
  // worth it.
  constexpr size_t kRangesPerThread = 8, kMinRangeBytes = size_t{1} << 16;
  const size_t num_ranges =
      threads == 1 ? 1 : std::clamp<size_t>(total / kMinRangeBytes, 1, threads * kRangesPerThread);
  std::vector<Range> ranges;
  for (size_t i = 0, first = 0; i < num_ranges; ++i) {
    const int64_t limit = begin + static_cast<int64_t>(total / num_ranges * (i + 1));
    const auto* end = std::upper_bound(texts.offsets + first, texts.offsets + texts.num_texts, limit);
    const size_t last = i + 1 == num_ranges ? texts.num_texts : static_cast<size_t>(end - texts.offsets);
    ranges.push_back({first, std::max(first, last), IdBuffer()});
    first = ranges.back().last;
  }

  std::vector<EncodeResult> results(ranges.size(), {EncodeStatus::kOk, 0});
  const auto encode_range = [&](Worker& worker, size_t i) {
    Range& range = ranges[i];
    const auto bytes = static_cast<size_t>(texts.offsets[range.last] - texts.offsets[range.first]);
    range.ids.set_capacity(bytes / 3 + 4096);
    results[i] = worker.encode(texts, pieces, range.first, range.last, &range.ids, encoded->offsets.data(),
                               encoded->pretokens.data());
  };
  std::atomic<size_t> next_range{0};
  std::vector<std::exception_ptr> failures(std::min(threads, ranges.size()));
  const auto work = [&](size_t thread) {
    try {
      WorkerLease lease(*this);
      for (size_t i; (i = next_range.fetch_add(1)) < ranges.size();) encode_range(*lease.worker, i);
    } catch (...) {
      failures[thread] = std::current_exception();
    }
  };
  std::vector<std::thread> others;
  try {
    for (size_t thread = 1; thread < failures.size(); ++thread) others.emplace_back(work, thread);
    work(0);
  } catch (...) {  // a thread that did not start
    failures[0] = std::current_exception();
  }
  for (std::thread& other : others) other.join();
  for (const std::exception_ptr& failure : failures) {
    if (failure) std::rethrow_exception(failure);
  }
  for (const EncodeResult& result : results) {
    if (result.status != EncodeStatus::kOk) return result;
  }
  if (ranges.size() == 1) {
    encoded->ids = std::move(ranges[0].ids);
    encoded->ids.set_capacity(encoded->ids.size());
    return {EncodeStatus::kOk, 0};
  }
  size_t num_ids = 0;
  for (const Range& range : ranges) num_ids += range.ids.size();
  encoded->ids.set_capacity(num_ids);
  for (Range& range : ranges) {
    const auto before = static_cast<int64_t>(encoded->ids.size());
    for (size_t i = range.first; i < range.last; ++i) encoded->offsets[i + 1] += before;
    if (range.ids.size() == 0) continue;
    std::memcpy(encoded->ids.end(), range.ids.data(), range.ids.size() * sizeof(int32_t));
    encoded->ids.set_end(encoded->ids.end() + range.ids.size());
    range.ids = IdBuffer();
  }
  return {EncodeStatus::kOk, 0};
}

Encoder::WorkerLease::WorkerLease(Encoder& encoder) : encoder_(encoder) {
  size_t share;
  {
    const std::lock_guard lock(encoder.mutex_);
    encoder.num_leased_ += 1;
    if (!encoder.idle_.empty()) {
      worker = std::move(encoder.idle_.back());
      encoder.idle_.pop_back();
    }
    encoder.most_workers_ = std::max(encoder.most_workers_, encoder.num_leased_ + encoder.idle_.size());
    share = encoder.cache_bytes_ / std::bit_ceil(encoder.most_workers_);
  }
  // More threads than ever before: the budget is divided anew, and a cache that is too large starts afresh.
  if (worker != nullptr && worker->cache_bytes() <= share) return;
  worker.reset();
  worker = std::make_unique<Worker>(encoder, share);
}

Encoder::WorkerLease::~WorkerLease() {
  const std::lock_guard lock(encoder_.mutex_);
  encoder_.num_leased_ -= 1;
  encoder_.idle_.push_back(std::move(worker));
}

}  // namespace tokcore
