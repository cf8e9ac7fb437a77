#include "shards/id_parts.h"

#include <algorithm>
#include <cstring>

namespace tokcore {
namespace {

constexpr size_t kLineBytes = 64;
constexpr size_t kMostBytesAhead = 4096;  // then the processor has seen where this goes

const uint8_t* find_start(const IdSource* sources, const IdPart& part) {
  const IdSource& source = sources[part.source];
  return source.data + static_cast<size_t>(part.start) * source.width;
}

void fetch(const uint8_t* data, size_t size) {
  for (size_t i = 0; i < std::min(size, kMostBytesAhead); i += kLineBytes) __builtin_prefetch(data + i);
}

void widen(const uint8_t* data, size_t num, int32_t* ids) {
  for (size_t i = 0; i < num; ++i) {
    uint16_t id;
    std::memcpy(&id, data + i * sizeof(id), sizeof(id));
    ids[i] = id;
  }
}

}  // namespace

void copy_parts(const IdSource* sources, const IdPart* parts, size_t num_parts, int32_t* ids) {
  for (size_t i = 0; i < num_parts; ++i) {
    if (i + 1 < num_parts) {
      const IdPart& next = parts[i + 1];
      const auto num_next = static_cast<size_t>(next.end - next.start);
      fetch(find_start(sources, next), num_next * sources[next.source].width);
    }
    const auto num = static_cast<size_t>(parts[i].end - parts[i].start);
    const uint8_t* data = find_start(sources, parts[i]);
    if (num == 0) continue;
    if (sources[parts[i].source].width == sizeof(uint16_t)) {
      widen(data, num, ids);
    } else {
      std::memcpy(ids, data, num * sizeof(int32_t));
    }
    ids += num;
  }
}

}  // namespace tokcore
