// DESCRIPTION
// IdAssembler joins the ids of ranges of texts, which several threads encode and finish in any order. It
// places a range as soon as all ranges before it are there. The thread that completes them does so, while the
// ids are still in its caches. All methods but finish() are thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <utility>
#include <vector>

#include "encode/id_buffer.h"
#include "memory/pages.h"

namespace tokcore {

class IdAssembler {
 public:
  // firsts: the first text of each range, and the number of texts. usual_ids: room that is nearly always
  // enough. offsets[i + 1] is the end of text i within its range; placing makes it the end within all ids.
  IdAssembler(const std::vector<size_t>& firsts, size_t usual_ids, IdBuffer* ids, int64_t* offsets)
      : firsts_(firsts), ids_(ids), offsets_(offsets), ranges_(firsts.size() - 1) {
    ids_->set_capacity(usual_ids);
  }

  // An empty buffer for a range, a used one if there is any.
  IdBuffer buffer(size_t usual_ids) {
    IdBuffer buffer;
    {
      const std::lock_guard lock(mutex_);
      if (!used_.empty()) {
        buffer = std::move(used_.back());
        used_.pop_back();
      }
    }
    if (buffer.capacity() < usual_ids) buffer.set_capacity(usual_ids);
    return buffer;
  }

  // Takes the ids of a range, and places all ranges that can be placed now.
  void put(size_t range, IdBuffer ids) {
    size_t first, last;
    {
      const std::lock_guard lock(mutex_);
      ranges_[range] = {std::move(ids), 0, true};
      first = num_placed_;
      for (last = first; last < ranges_.size() && ranges_[last].is_there && has_room(ranges_[last]); ++last) {
        ranges_[last].start = num_ids_;
        num_ids_ += ranges_[last].ids.size();
      }
      num_placed_ = last;
    }
    for (size_t i = first; i < last; ++i) {
      place(i);
      ranges_[i].ids.set_end(ranges_[i].ids.data());
      const std::lock_guard lock(mutex_);
      used_.push_back(std::move(ranges_[i].ids));
    }
  }

  // Places the ranges that there was no room for. Call last, from one thread.
  void finish() {
    size_t size = num_ids_;
    for (size_t i = num_placed_; i < ranges_.size(); ++i) {
      ranges_[i].start = size;
      size += ranges_[i].ids.size();
    }
    ids_->set_end(ids_->data() + num_ids_);
    ids_->reserve_more(size - num_ids_);
    for (size_t i = num_placed_; i < ranges_.size(); ++i) place(i);
    ids_->set_end(ids_->data() + size);
    ids_->shrink();
  }

 private:
  struct Range {
    IdBuffer ids;
    size_t start = 0;  // of its ids among all
    bool is_there = false;
  };

  bool has_room(const Range& range) const { return ids_->capacity() - num_ids_ >= range.ids.size(); }

  void place(size_t i) {
    const Range& range = ranges_[i];
    const size_t size_bytes = range.ids.size() * sizeof(int32_t);
    provide_pages(ids_->data() + range.start, size_bytes);
    std::memcpy(ids_->data() + range.start, range.ids.data(), size_bytes);
    for (size_t text = firsts_[i]; text < firsts_[i + 1]; ++text)
      offsets_[text + 1] += static_cast<int64_t>(range.start);
  }

  const std::vector<size_t>& firsts_;
  IdBuffer* ids_;
  int64_t* offsets_;
  std::mutex mutex_;  // guards the members below; a range being placed belongs to one thread
  std::vector<Range> ranges_;
  std::vector<IdBuffer> used_;
  size_t num_placed_ = 0;
  size_t num_ids_ = 0;
};

}  // namespace tokcore
