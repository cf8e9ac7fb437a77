#include "shards/id_replacer.h"

#include <algorithm>
#include <cstring>

namespace tokcore {
namespace {

constexpr size_t kBlock = 1024;  // ids that are measured, and then replaced while their lists are near

}  // namespace

IdReplacer::IdReplacer(const int32_t* ids, const int64_t* offsets, size_t num_ids) {
  lists_.reserve(num_ids);
  for (size_t i = 0; i < num_ids; ++i) {
    const int32_t* first = ids + offsets[i];
    List list = {{0, 0, 0}, static_cast<uint32_t>(offsets[i + 1] - offsets[i])};
    if (list.length <= kInside) {
      std::copy_n(first, list.length, list.ids);
    } else {
      list.ids[0] = static_cast<int32_t>(ids_.size());
      ids_.insert(ids_.end(), first, first + list.length);
    }
    lists_.push_back(list);
  }
}

size_t IdReplacer::replace(const int32_t* ids, const int64_t* offsets, size_t num_documents,
                           IdDocuments* replaced) const {
  IdBuffer& buffer = replaced->ids;
  replaced->offsets.reserve(num_documents + 1);
  replaced->offsets.push_back(0);
  for (size_t i = 0; i < num_documents; ++i) {
    const auto end = static_cast<size_t>(offsets[i + 1]);
    for (auto start = static_cast<size_t>(offsets[i]); start < end; start += kBlock) {
      const size_t last = std::min(start + kBlock, end);
      size_t num = 0;
      for (size_t at = start; at < last; ++at) {
        const auto id = static_cast<uint32_t>(ids[at]);  // a negative one is larger than all
        if (id >= lists_.size() || lists_[id].length == 0) [[unlikely]]
          return at;
        num += lists_[id].length;
      }
      buffer.reserve_more(num + kInside + 1);
      int32_t* out = buffer.end();
      for (size_t at = start; at < last; ++at) {
        const List& list = lists_[static_cast<size_t>(ids[at])];
        // What is copied too much is written over, or stays after the end.
        std::memcpy(out, &list, sizeof(List));
        if (list.length > kInside) [[unlikely]]
          std::copy_n(ids_.data() + list.ids[0], list.length, out);
        out += list.length;
      }
      buffer.set_end(out);
    }
    replaced->offsets.push_back(static_cast<int64_t>(buffer.size()));
  }
  return kNone;
}

}  // namespace tokcore
