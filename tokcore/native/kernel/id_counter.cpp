#include "id_counter.h"

#include <algorithm>
#include <limits>

namespace tokcore {

void IdCounter::Total::add(uint64_t in_document) {
  count += in_document;
  ++documents;
  max_in_document = std::max(max_in_document, in_document);
}

IdCounter::Current& IdCounter::current_of(int32_t id) {
  if (id >= kFirstFar) return far_current_[id];
  const auto place = static_cast<size_t>(id);
  if (place >= current_.size()) {
    const size_t larger = std::min(std::max(place + 1, current_.size() * 2), static_cast<size_t>(kFirstFar));
    current_.resize(larger);
    totals_.resize(larger);
  }
  return current_[place];
}

IdCounter::Total& IdCounter::total_of(int32_t id) {
  return id >= kFirstFar ? far_totals_[id] : totals_[static_cast<size_t>(id)];
}

void IdCounter::add(const int32_t* ids, const int64_t* offsets, size_t num_documents) {
  for (size_t i = 0; i < num_documents; ++i) {
    if (document_ == std::numeric_limits<uint32_t>::max()) {
      // Start again from 1: what is known of earlier documents goes to the totals.
      for (const int32_t id : seen_) {
        Current& current = current_of(id);
        if (current.count != 0) total_of(id).add(current.count);
        current = {1, 0};
      }
      document_ = 1;
    }
    ++document_;
    for (const int32_t* id = ids + offsets[i]; id != ids + offsets[i + 1]; ++id) {
      Current* current =
          static_cast<size_t>(*id) < current_.size() ? &current_[static_cast<size_t>(*id)] : nullptr;
      if (current == nullptr) current = &current_of(*id);
      if (current->document != document_) {
        if (current->document == 0) {
          seen_.push_back(*id);
        } else if (current->count != 0) {
          total_of(*id).add(current->count);
        }
        *current = {document_, 0};
      }
      ++current->count;
    }
  }
}

IdRows IdCounter::take() {
  std::sort(seen_.begin(), seen_.end());
  IdRows rows;
  rows.ids = std::move(seen_);
  seen_ = {};
  for (const int32_t id : rows.ids) {
    Current& current = current_of(id);
    Total& total = total_of(id);
    if (current.count != 0) total.add(current.count);
    rows.counts.push_back(total.count);
    rows.documents.push_back(total.documents);
    rows.max_in_document.push_back(total.max_in_document);
    current = {};
    total = {};
  }
  far_current_.clear();
  far_totals_.clear();
  document_ = 0;
  return rows;
}

}  // namespace tokcore
