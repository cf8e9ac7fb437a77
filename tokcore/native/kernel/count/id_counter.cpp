#include "count/id_counter.h"

#include <algorithm>
#include <limits>

namespace tokcore {

inline void IdCounter::Total::add(uint32_t in_document) {
  count += in_document;
  documents += in_document != 0 ? 1 : 0;
  max_in_document = std::max<uint64_t>(max_in_document, in_document);
}

void IdCounter::add(const int32_t* ids, const int64_t* offsets, size_t num_documents) {
  Ended ended[kBatch];
  for (size_t i = 0; i < num_documents; ++i) {
    if (document_ == std::numeric_limits<uint32_t>::max()) {
      // Ordinals would overflow and start again: 0 still means not seen, all earlier ones become 1.
      for (Current& current : current_) current.document = std::min<uint32_t>(current.document, 1);
      for (auto& [id, far] : far_) far.first.document = 1;
      document_ = 1;
    }
    const uint32_t document = ++document_;
    const int32_t* const end = ids + offsets[i + 1];
    for (const int32_t* id = ids + offsets[i]; id != end;) {
      const int32_t* const batch_end = id + std::min<ptrdiff_t>(end - id, kBatch);
      size_t num_ended = 0;
      for (; id != batch_end; ++id) {
        const auto place = static_cast<size_t>(*id);
        if (place >= current_.size()) [[unlikely]] {
          if (*id >= kFirstFar) {
            add_far(*id);
            continue;
          }
          const size_t larger = std::min<size_t>(std::max(place + 1, current_.size() * 2), kFirstFar);
          current_.resize(larger);
          totals_.resize(larger);
        }
        // Whether an id is new to its document cannot be predicted. So its count in the document before is
        // always written down, and kept only if the id is new.
        const Current before = current_[place];
        const uint32_t is_new = before.document != document ? 1 : 0;
        ended[num_ended] = {*id, before.count};
        num_ended += is_new;
        current_[place] = {document, (before.count & (is_new - 1)) + 1};
      }
      settle(ended, ended + num_ended);
    }
  }
}

void IdCounter::settle(const Ended* first, const Ended* last) {
  for (const Ended* one = first; one != last; ++one) {
    if (one->count == 0) [[unlikely]]
      seen_.push_back(one->id);
    totals_[static_cast<size_t>(one->id)].add(one->count);
  }
}

void IdCounter::add_far(int32_t id) {
  auto& [current, total] = far_[id];
  if (current.document != document_) {
    if (current.count == 0) seen_.push_back(id);
    total.add(current.count);
    current = {document_, 0};
  }
  ++current.count;
}

IdRows IdCounter::take() {
  // If many ids occurred, looking at all places is quicker than sorting those ids.
  if (seen_.size() > current_.size() / kLookPerSorted && far_.empty()) {
    size_t num_seen = 0;
    for (size_t place = 0; place != current_.size(); ++place) {
      if (current_[place].count != 0) seen_[num_seen++] = static_cast<int32_t>(place);
    }
  } else {
    std::sort(seen_.begin(), seen_.end());
  }
  IdRows rows;
  rows.counts.reserve(seen_.size());
  rows.documents.reserve(seen_.size());
  rows.max_in_document.reserve(seen_.size());
  for (const int32_t id : seen_) {
    const auto place = static_cast<size_t>(id);
    Current& current = id >= kFirstFar ? far_[id].first : current_[place];
    Total& total = id >= kFirstFar ? far_[id].second : totals_[place];
    total.add(current.count);
    rows.counts.push_back(total.count);
    rows.documents.push_back(total.documents);
    rows.max_in_document.push_back(total.max_in_document);
    current = {};
    total = {};
  }
  far_.clear();
  rows.ids = std::move(seen_);
  seen_ = {};
  document_ = 0;
  return rows;
}

}  // namespace tokcore
