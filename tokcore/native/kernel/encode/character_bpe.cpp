#include "encode/character_bpe.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <functional>

#include "text/piece_normalizer.h"

namespace tokcore {
namespace {

uint64_t pack(const uint8_t* character, size_t size) {
  uint64_t packed = 0;
  for (size_t i = 0; i < size; ++i) packed = packed << 8 | character[i];
  return packed;
}

const uint8_t* bytes_of(const PieceVocabulary& vocabulary, uint32_t piece) {
  return reinterpret_cast<const uint8_t*>(vocabulary.text(piece).data());
}

// Unsigned numbers in the order of scores; -0 comes before 0.
uint32_t sortable(float score) {
  const auto bits = std::bit_cast<uint32_t>(score);
  return (bits >> 31) != 0 ? ~bits : bits | uint32_t{1} << 31;
}

}  // namespace

void CharacterBpe::build_symbols(const PieceVocabulary& vocabulary, const PieceTrie& user_defined) {
  vocabulary_ = &vocabulary;
  user_defined_ = &user_defined;
  const auto num_pieces = static_cast<uint32_t>(vocabulary.num_pieces());
  for (unsigned byte = 0; byte < 256 && !user_defined.empty(); ++byte) {
    begins_user_defined_[byte] =
        user_defined.child(PieceTrie::kRoot, static_cast<uint8_t>(byte)) != PieceTrie::kNone;
  }

  characters_.reset(vocabulary.starts()[num_pieces]);
  sizes_.resize(num_pieces);
  for (uint32_t piece = 0; piece < num_pieces; ++piece) {
    const size_t size = vocabulary.text(piece).size();
    sizes_[piece] = static_cast<uint32_t>(size);
    const uint8_t* const text = bytes_of(vocabulary, piece);
    if (character_bytes(text, size) == size) characters_.add(pack(text, size), piece);
  }
  for (uint32_t piece = 0; piece < num_pieces; ++piece) {
    const uint8_t* const text = bytes_of(vocabulary, piece);
    const size_t size = vocabulary.text(piece).size();
    for (size_t i = 0, width; i < size; i += width) {
      width = character_bytes(text + i, size - i);
      const auto fresh = static_cast<uint32_t>(sizes_.size());
      if (characters_.add(pack(text + i, width), fresh) == fresh)
        sizes_.push_back(static_cast<uint32_t>(width));
    }
  }
  for (unsigned byte = 0; byte < 128; ++byte) ascii_[byte] = characters_.find(byte);
}

void CharacterBpe::build(const PieceVocabulary& vocabulary, const PieceTrie& user_defined) {
  build_symbols(vocabulary, user_defined);
  const auto num_pieces = static_cast<uint32_t>(vocabulary.num_pieces());
  // Every piece, by its text.
  std::vector<PieceTrie::Entry> entries(num_pieces);
  for (uint32_t piece = 0; piece < num_pieces; ++piece) entries[piece] = {vocabulary.text(piece), piece, 0};
  PieceTrie by_text;
  by_text.build(std::move(entries));

  std::vector<uint32_t> keys(num_pieces);
  for (uint32_t piece = 0; piece < num_pieces; ++piece) keys[piece] = ~sortable(vocabulary.score(piece));
  std::vector<uint32_t> distinct = keys;
  std::sort(distinct.begin(), distinct.end());
  distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
  ranks_.resize(num_pieces);
  for (uint32_t piece = 0; piece < num_pieces; ++piece) {
    ranks_[piece] = static_cast<uint32_t>(std::lower_bound(distinct.begin(), distinct.end(), keys[piece]) -
                                          distinct.begin());
  }

  results_.resize(num_pieces);
  for (uint32_t piece = 0; piece < num_pieces; ++piece) results_[piece] = piece;

  // All ways to make a piece of two symbols.
  struct Pair {
    uint64_t key;
    uint32_t result;
  };
  std::vector<Pair> pairs;
  parts_.assign(num_pieces, {kNone, kNone});
  is_ambiguous_.assign(num_pieces, false);
  std::vector<uint32_t> starting;  // by place in the piece: the symbol that is all before it
  for (uint32_t piece = 0; piece < num_pieces; ++piece) {
    const uint8_t* const text = bytes_of(vocabulary, piece);
    const size_t size = vocabulary.text(piece).size();
    const auto find = [&](size_t begin, size_t end) {
      if (character_bytes(text + begin, size - begin) >= end - begin)
        return symbol_of(text + begin, end - begin);
      uint32_t node = PieceTrie::kRoot;
      for (size_t i = begin; i < end; ++i) {
        if ((node = by_text.child(node, text[i])) == PieceTrie::kNone) return kNone;
      }
      return by_text.piece(node);
    };
    starting.assign(size, kNone);
    uint32_t node = PieceTrie::kRoot;
    for (size_t i = 0; i + 1 < size; ++i) {
      node = by_text.child(node, text[i]);  // the piece itself begins so
      starting[i + 1] = by_text.piece(node);
    }
    const size_t first = character_bytes(text, size);
    if (first < size) starting[first] = symbol_of(text, first);
    for (size_t cut = first; cut < size; cut += character_bytes(text + cut, size - cut)) {
      if (starting[cut] == kNone) continue;
      const uint32_t left = starting[cut], right = find(cut, size);
      if (right == kNone) continue;
      pairs.push_back({uint64_t{left} << 32 | right, piece});
      if (!is_unused(piece)) continue;
      is_ambiguous_[piece] = parts_[piece].first != kNone;
      if (!is_ambiguous_[piece]) parts_[piece] = {left, right};
    }
    has_unused_ = has_unused_ || is_unused(piece);
  }
  pairs_.reset(pairs.size());
  for (const Pair& pair : pairs) pairs_.add(pair.key, pair.result);
}

void CharacterBpe::build(const PieceVocabulary& vocabulary, const PieceTrie& user_defined,
                         const PieceMerges& merges) {
  build_symbols(vocabulary, user_defined);
  parts_.assign(vocabulary.num_pieces(), {kNone, kNone});
  is_ambiguous_.assign(vocabulary.num_pieces(), false);
  pairs_.reset(merges.count);
  ranks_.resize(merges.count);
  results_.assign(merges.result, merges.result + merges.count);
  for (uint32_t i = 0; i < merges.count; ++i) {
    ranks_[i] = i;
    pairs_.add(uint64_t{merges.left[i]} << 32 | merges.right[i], i);
  }
}

uint32_t CharacterBpe::symbol_of(const uint8_t* character, size_t size) const {
  return characters_.find(pack(character, size));
}

size_t CharacterBpe::split(const uint8_t* text, size_t size, CharacterBpeScratch& scratch) const {
  scratch.symbols.resize(size);
  scratch.starts.resize(size + 1);
  size_t count = 0;
  for (size_t i = 0; i < size;) {
    scratch.starts[count] = static_cast<uint32_t>(i);
    if (begins_user_defined_[text[i]]) {
      const size_t found = user_defined_->longest(text + i, size - i, PieceNormalizer::kMaxUserDefined).first;
      if (found != 0) {
        scratch.symbols[count++] = kStays;
        i += found;
        continue;
      }
    }
    if (text[i] < 0x80) {
      scratch.symbols[count++] = ascii_[text[i++]];
      continue;
    }
    const size_t width = character_bytes(text + i, size - i);
    scratch.symbols[count++] = symbol_of(text + i, width);
    i += width;
  }
  scratch.starts[count] = static_cast<uint32_t>(size);
  return count;
}

size_t CharacterBpe::encode(const uint8_t* text, size_t size, bool is_text, CharacterBpeScratch& scratch,
                            uint32_t* numbers) const {
  size_t count = split(text, size, scratch);
  const bool records = is_text && has_unused_;
  if (records) {
    scratch.seen_parts.resize(vocabulary_->num_pieces(), {kNone, kNone});
    for (const uint32_t piece : scratch.seen) scratch.seen_parts[piece] = {kNone, kNone};
    scratch.seen.clear();
  }
  const bool is_done = count <= kMaxScanned && !records ? merge_by_scan(&count, scratch)
                                                        : merge_by_heap(&count, is_text, scratch);
  if (!is_done) return kNeedsText;
  NumberWriter writer(*vocabulary_, numbers);
  for (size_t i = 0; i < count; ++i) {
    const uint32_t start = scratch.starts[i];
    write(scratch.symbols[i], text + start, scratch.starts[i + 1] - start, is_text, 0, scratch, writer);
  }
  return writer.count();
}

bool CharacterBpe::merge_by_scan(size_t* num_symbols, CharacterBpeScratch& scratch) const {
  uint32_t* const symbols = scratch.symbols.data();
  uint32_t* const starts = scratch.starts.data();
  size_t count = *num_symbols;
  uint32_t pairs[kMaxScanned];
  const auto look_up = [&](size_t i) {
    pairs[i] = find_pair(symbols[i], symbols[i + 1]);
    return pairs[i] == kNone || !is_unused(pairs[i]) || !is_ambiguous_[pairs[i]];
  };
  // Several lookups at once wait for memory together.
  const auto prefetch = [&](size_t i) { pairs_.prefetch(uint64_t{symbols[i]} << 32 | symbols[i + 1]); };
  for (size_t i = 0; i + 1 < count; ++i) prefetch(i);
  for (size_t i = 0; i + 1 < count; ++i) {
    if (!look_up(i)) return false;
  }
  for (;;) {
    size_t best = 0;
    uint32_t best_rank = kNone;
    for (size_t i = 0; i + 1 < count; ++i) {
      if (pairs[i] != kNone && ranks_[pairs[i]] < best_rank) {
        best = i;
        best_rank = ranks_[pairs[i]];
      }
    }
    if (best_rank == kNone) break;
    symbols[best] = results_[pairs[best]];
    --count;
    std::memmove(symbols + best + 1, symbols + best + 2, (count - best - 1) * sizeof(uint32_t));
    if (best > 0) prefetch(best - 1);
    if (best + 1 < count) prefetch(best);
    std::memmove(starts + best + 1, starts + best + 2, (count - best) * sizeof(uint32_t));
    std::memmove(pairs + best, pairs + best + 1, (count - best - 1) * sizeof(uint32_t));
    if (best > 0 && !look_up(best - 1)) return false;
    if (best + 1 < count && !look_up(best)) return false;
  }
  *num_symbols = count;
  return true;
}

bool CharacterBpe::merge_by_heap(size_t* num_symbols, bool is_text, CharacterBpeScratch& scratch) const {
  const size_t count = *num_symbols;
  uint32_t* const symbols = scratch.symbols.data();
  scratch.pairs.assign(count, kNone);
  scratch.previous.resize(count);
  scratch.next.resize(count);
  uint32_t* const pairs = scratch.pairs.data();
  uint32_t* const previous = scratch.previous.data();
  uint32_t* const next = scratch.next.data();
  std::vector<uint64_t>& heap = scratch.heap;
  heap.clear();

  // Notes the pair of a symbol and the next. False if that asks for the rest of the text.
  const auto look_up = [&](uint32_t left) {
    const uint32_t pair = find_pair(symbols[left], symbols[next[left]]);
    pairs[left] = pair;
    if (pair == kNone) return true;
    heap.push_back(uint64_t{ranks_[pair]} << 32 | left);
    // Where a piece is unused, no merges are listed: the pair has the number of its piece.
    const uint32_t piece = pair;
    if (!has_unused_ || !is_unused(piece)) return true;
    if (!is_text) return !is_ambiguous_[piece];
    if (scratch.seen_parts[piece].first == kNone) scratch.seen.push_back(piece);
    scratch.seen_parts[piece] = {symbols[left], symbols[next[left]]};
    return true;
  };
  for (size_t i = 0; i < count; ++i) {
    previous[i] = static_cast<uint32_t>(i) - 1;
    next[i] = i + 1 < count ? static_cast<uint32_t>(i) + 1 : kNone;
  }
  for (size_t i = 0; i + 1 < count; ++i) {
    if (!look_up(static_cast<uint32_t>(i))) return false;
  }
  std::make_heap(heap.begin(), heap.end(), std::greater<>());
  const auto add = [&](uint32_t left) {
    const size_t before = heap.size();
    if (!look_up(left)) return false;
    if (heap.size() > before) std::push_heap(heap.begin(), heap.end(), std::greater<>());
    return true;
  };
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), std::greater<>());
    const uint64_t top = heap.back();
    heap.pop_back();
    const auto left = static_cast<uint32_t>(top);
    // A symbol that is gone has no pair; one whose neighbour changed has another.
    if (pairs[left] == kNone || ranks_[pairs[left]] != top >> 32) continue;
    const uint32_t right = next[left];
    symbols[left] = results_[pairs[left]];
    pairs[left] = pairs[right] = kNone;
    next[left] = next[right];
    if (next[left] != kNone) previous[next[left]] = left;
    if (previous[left] != kNone && !add(previous[left])) return false;
    if (next[left] != kNone && !add(left)) return false;
  }
  size_t left = 0;
  for (uint32_t i = 0; i != kNone; i = next[i]) {
    symbols[left] = symbols[i];
    scratch.starts[left++] = scratch.starts[i];
  }
  scratch.starts[left] = scratch.starts[count];
  *num_symbols = left;
  return true;
}

void CharacterBpe::write(uint32_t symbol, const uint8_t* text, size_t size, bool is_text, int depth,
                         const CharacterBpeScratch& scratch, NumberWriter& writer) const {
  if (symbol == kStays) {
    writer.put(user_defined_->longest(text, size, PieceNormalizer::kMaxUserDefined).second);
  } else if (symbol >= vocabulary_->num_pieces()) {
    writer.put_unknown(text, size);
  } else if (depth > kMaxDepth || !is_unused(symbol)) {
    writer.put(symbol);
  } else {
    const auto [left, right] = is_text ? scratch.seen_parts[symbol] : parts_[symbol];
    if (left == kNone) {
      writer.put_unknown(text, size);
    } else {
      const size_t left_size = symbol_size(left);
      write(left, text, left_size, is_text, depth + 1, scratch, writer);
      write(right, text + left_size, size - left_size, is_text, depth + 1, scratch, writer);
    }
  }
}

}  // namespace tokcore
