// Encoding of long pieces (bpe_model.h).
//
// All of it rests on the theorem of tokcore/README.md, Encoding. In a well-formed vocabulary, a sequence of
// tokens is the encoding of its bytes if and only if each two neighbours are the encoding of their bytes. So
// encodings can be joined wherever every two neighbours of the result were neighbours in one of them.
#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>

#include "encode/bpe_model.h"

namespace tokcore {
namespace {

// The shortest repetition for which this pays, and the size of the sample that shows its tokens.
constexpr size_t kMinRepeatedBytes = 16384, kSampleBytes = 4096;
constexpr size_t kMaxPeriod = 64;

// The period of a text that repeats its first bytes to its end; 0 if it does not, or if it is short.
size_t period_of(const uint8_t* text, size_t size) {
  if (size < kMinRepeatedBytes) return 0;
  // If the first period fails, so does every other: it would be a multiple of this one.
  for (size_t period = 1; period <= kMaxPeriod; ++period) {
    if (std::memcmp(text, text + period, kMaxPeriod) == 0)
      return std::memcmp(text, text + period, size - period) == 0 ? period : 0;
  }
  return 0;
}

constexpr uint64_t below(size_t bit) { return (uint64_t{1} << bit) - 1; }

// The start of a token that two overlapping encodings share; `size` if there is none. left, right: a bit for
// each byte where a token begins. The left encoding ends after `size` bytes, the right one goes on.
size_t common_token(uint64_t left, uint64_t right, size_t size) {
  left |= uint64_t{1} << size;
  const uint64_t both = left & right;
  for (uint64_t rest = both & below(size); rest != 0; rest &= rest - 1) {
    const auto begin = static_cast<size_t>(std::countr_zero(rest));
    const auto end = std::countr_zero((left | right) & ~below(begin + 1));
    if ((both >> end & 1) != 0) return begin;
  }
  return size;
}

}  // namespace

size_t BpeModel::encode_long(const Piece& piece, PieceScratch& scratch) const {
  size_t count = 0;
  if (well_formed_) {
    if (const size_t period = period_of(piece.text, piece.size); period != 0)
      count = encode_repeated(piece, period, scratch);
    if (count == 0) count = encode_in_chunks(piece, scratch);
    if (count != 0) return count;
    count = match_left_to_right(piece.text, piece.size, scratch);
  } else {
    count = merge_by_heap(piece.text, piece.size, scratch, nullptr);
  }
  for (size_t i = 0; i < count; ++i) piece.ids[i] = external_[scratch.symbols[i]];
  return count;
}

// Encodes a shortened repetition, finds in it a token that recurs some periods later, and repeats the tokens
// from one to the other as often as the full length needs. The bytes are right because they repeat,
// and no two tokens become neighbours that were not neighbours before. Returns 0 if there is no such token.
size_t BpeModel::encode_repeated(const Piece& piece, size_t period, PieceScratch& scratch) const {
  const std::vector<uint32_t>& symbols = scratch.symbols;
  // Finds two equal tokens, `distance` bytes apart. Looks from the middle on, as the start may differ.
  size_t first, last, distance = 0;
  const auto find_cycle = [&](size_t size, size_t wanted) {
    match_left_to_right(piece.text, size, scratch);
    first = symbols.size() / 2;
    distance = 0;
    for (last = first; last + 1 < symbols.size();) {
      distance += token_size(symbols[last++]);
      if (symbols[last] == symbols[first] && distance % period == 0 && (wanted == 0 || distance == wanted))
        return true;
    }
    return false;
  };
  if (!find_cycle(kSampleBytes, 0)) return 0;
  const size_t cycle = distance, left_out = (piece.size - kSampleBytes) / cycle * cycle;
  if (!find_cycle(piece.size - left_out, cycle)) return 0;

  int32_t* out = piece.ids;
  const auto put = [&](size_t from, size_t to) {
    for (size_t i = from; i < to; ++i) *out++ = external_[symbols[i]];
  };
  put(0, last);
  for (size_t more = (last - first) * (left_out / cycle); more > 0;) {
    // Copy whole cycles, as many as there are: everything written since the first one began.
    const size_t size = std::min(more, static_cast<size_t>(out - (piece.ids + first)));
    std::memcpy(out, piece.ids + first, size * sizeof(int32_t));
    out += size;
    more -= size;
  }
  put(last, symbols.size());
  return static_cast<size_t>(out - piece.ids);
}

// Merges overlapping chunks side by side in lanes, and joins each to the text before it at a token that both
// have. If there is none, matches from the chunk before to the end of this one from left to right. If the
// next chunk does not join either, matches twice as far, so that the whole is linear. Returns 0 if that fails
// too.
size_t BpeModel::encode_in_chunks(const Piece& piece, PieceScratch& scratch) const {
  constexpr size_t kOverlap = 16, kStep = kMaxLaneBytes - kOverlap, kMaxChunks = 128;
  const MergeTables tables{pairs_, nullptr, external_.data(), is_external_};
  const size_t num_chunks = (piece.size - kOverlap + kStep - 1) / kStep;
  const auto chunk_end = [&](size_t chunk) { return std::min(piece.size, chunk * kStep + kMaxLaneBytes); };
  scratch.chunk_ids.resize(kMaxChunks * kMaxLaneBytes);
  Piece merged[kMaxChunks];
  Piece* waiting[kMaxChunks];
  const Piece* chunks[kMaxChunks];  // by chunk; equal chunks in a row are merged once

  // At the start of each round piece.ids is the encoding of all bytes up to the end of a chunk.
  size_t count = 0;
  uint64_t starts = 0;  // a bit for each byte of that chunk where a token begins, from the shared token on
  size_t matched_begin = 0, matched_count = 0,
         num_matched = 0;  // of the text just matched from left to right
  for (size_t next = 0; next < num_chunks;) {
    const size_t first = next, last = std::min(num_chunks, first + kMaxChunks);
    size_t num_merged = 0;
    for (size_t i = first; i < last; ++i) {
      const uint8_t* const text = piece.text + i * kStep;
      const size_t size = chunk_end(i) - i * kStep;
      if (i == first || size != kMaxLaneBytes || std::memcmp(text, text - kStep, size) != 0) {
        int32_t* const ids = scratch.chunk_ids.data() + num_merged * kMaxLaneBytes;
        merged[num_merged] = {text, size, piece.limit, ids, 0, 0};
        waiting[num_merged] = &merged[num_merged];
        ++num_merged;
      }
      chunks[i - first] = &merged[num_merged - 1];
    }
    merge_(tables, waiting, num_merged);
    while (next < last) {
      const Piece& chunk = *chunks[next - first];
      const size_t common = next == 0 ? 0 : common_token(starts >> kStep, chunk.starts, kOverlap);
      if (common < kOverlap) {
        count -= static_cast<size_t>(std::popcount(starts >> kStep >> common));
        const auto skipped = static_cast<size_t>(std::popcount(chunk.starts & below(common)));
        std::memcpy(piece.ids + count, chunk.ids + skipped, (chunk.count - skipped) * sizeof(int32_t));
        count += chunk.count - skipped;
        starts = chunk.starts & ~below(common);
        num_matched = 0;
        ++next;
        continue;
      }
      if (num_matched == 0) {
        matched_begin = (next - 1) * kStep + static_cast<size_t>(std::countr_zero(starts));
        matched_count = count - static_cast<size_t>(std::popcount(starts));
      }
      num_matched = std::max<size_t>(1, 2 * num_matched);
      next = std::min(num_chunks, next + num_matched);
      const size_t begin = (next - 1) * kStep;
      const size_t added =
          match_left_to_right(piece.text + matched_begin, chunk_end(next - 1) - matched_begin, scratch);
      // The token before must still be followed by the same token.
      if (matched_count != 0 && external_[scratch.symbols[0]] != piece.ids[matched_count]) return 0;
      count = matched_count;
      starts = 0;
      for (size_t i = 0, at = matched_begin; i < added; at += token_size(scratch.symbols[i++])) {
        if (at >= begin) starts |= uint64_t{1} << (at - begin);
        piece.ids[count++] = external_[scratch.symbols[i]];
      }
    }
  }
  return count;
}

size_t BpeModel::match_left_to_right(const uint8_t* text, size_t size, PieceScratch& scratch) const {
  std::atomic<size_t>& merged_bytes = making_->merged_bytes;
  if (merged_bytes.load(std::memory_order_relaxed) + size <= kMergedBytes) {
    merged_bytes.fetch_add(size, std::memory_order_relaxed);
    scratch.symbols.resize(merge_by_heap(text, size, scratch, nullptr));
    return scratch.symbols.size();
  }
  // dead: a bit for each position where the tokens found before it cannot go on. Each bit is set at most
  // once, which bounds the steps back.
  std::vector<uint32_t>& symbols = scratch.symbols;
  std::vector<uint64_t>& dead = scratch.dead;
  symbols.clear();
  dead.assign(size / 64 + 1, 0);
  size_t position = 0;
  const auto& [trie, longest_prefix] = matching();
  uint32_t token = trie.longest(text, size);
  while (position < size) {
    const size_t end = position + token_size(token);
    if ((dead[end / 64] >> (end % 64) & 1) == 0 &&
        (symbols.empty() || follows(symbols.back(), token, scratch))) {
      symbols.push_back(token);
      position = end;
      if (position < size) token = trie.longest(text + position, size - position);
    } else if (longest_prefix[token] != kNone) {
      token = longest_prefix[token];
    } else {
      dead[position / 64] |= uint64_t{1} << (position % 64);
      token = symbols.back();
      symbols.pop_back();
      position -= token_size(token);
    }
  }
  return symbols.size();
}

// may_follow with a cache: in repetitive text the same neighbours come again and again.
bool BpeModel::follows(uint32_t left, uint32_t right, PieceScratch& scratch) const {
  constexpr size_t kBits = 12;  // small enough for the L1 cache
  std::vector<uint64_t>& known = scratch.known_neighbours;
  if (known.empty()) known.assign(size_t{1} << kBits, UINT64_MAX);
  const uint64_t pair = uint64_t{left} << 32 | uint64_t{right} << 1;  // numbers are below 2^31
  uint64_t& entry = known[pair * 0x9E3779B97F4A7C15u >> (64 - kBits)];
  if ((entry & ~uint64_t{1}) != pair) entry = pair | static_cast<uint64_t>(may_follow(left, right));
  return (entry & 1) != 0;
}

// Whether `right` may follow `left`, that is, whether their joined bytes encode to just these two tokens.
// Undoes the merges that made them, from the last to the first, and looks for a merge across the border that
// would have come before.
bool BpeModel::may_follow(uint32_t left, uint32_t right) const {
  uint32_t limit =
      kNone;  // the token undone last: a merge across the border from here on would come too late
  for (;;) {
    if (const uint32_t rank = rank_of(left, right); rank != kNone && 256 + rank < limit) return false;
    if (left > right) {
      limit = left;
      left = parts_[left].right;
      if (left == limit) {
        limit = right + 1;
        right = parts_[right].left;
        if (right + 1 == limit) return true;
      }
    } else {
      limit = right + 1;
      right = parts_[right].left;
      if (right + 1 == limit) {
        limit = left;
        left = parts_[left].right;
        if (left == limit) return true;
      }
    }
  }
}

}  // namespace tokcore
