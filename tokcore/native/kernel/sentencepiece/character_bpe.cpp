#include "sentencepiece/character_bpe.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <functional>

#include "sentencepiece/piece_normalizer.h"

namespace tokcore {
namespace {

uint64_t pack(const uint8_t* character, size_t size) {
  uint64_t packed = 0;
  for (size_t i = 0; i < size; ++i) packed = packed << 8 | character[i];
  return packed;
}

// How many bytes were packed. NUL, too, is one.
uint32_t packed_bytes(uint64_t character) {
  return static_cast<uint32_t>((std::bit_width(character | 1) + 7) / 8);
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

  sizes_.resize(num_pieces);
  std::vector<uint64_t> characters;  // each once, as packed, so that the table is no larger than it need be
  for (uint32_t piece = 0; piece < num_pieces; ++piece) {
    const uint8_t* const text = bytes_of(vocabulary, piece);
    const size_t size = vocabulary.text(piece).size();
    sizes_[piece] = static_cast<uint32_t>(size);
    for (size_t i = 0, width; i < size; i += width) {
      width = character_bytes(text + i, size - i);
      characters.push_back(pack(text + i, width));
    }
  }
  std::sort(characters.begin(), characters.end());
  characters.erase(std::unique(characters.begin(), characters.end()), characters.end());
  characters_.reset(characters.size());
  for (uint32_t piece = 0; piece < num_pieces; ++piece) {
    const uint8_t* const text = bytes_of(vocabulary, piece);
    if (character_bytes(text, sizes_[piece]) == sizes_[piece])
      characters_.add(pack(text, sizes_[piece]), piece);
  }
  for (const uint64_t character : characters) {
    const auto fresh = static_cast<uint32_t>(sizes_.size());
    if (characters_.add(character, fresh) == fresh) sizes_.push_back(packed_bytes(character));
  }
  for (unsigned byte = 0; byte < 128; ++byte) ascii_[byte] = characters_.find(byte);
}

bool CharacterBpe::build(const PieceVocabulary& vocabulary, const PieceTrie& user_defined) {
  build_symbols(vocabulary, user_defined);
  const auto num_pieces = static_cast<uint32_t>(vocabulary.num_pieces());
  if (num_pieces >= kNoRank) return false;
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

  // All ways to make a piece of two symbols.
  std::vector<PairRanks::Entry> merges;
  parts_.assign(num_pieces, {kNone, kNone});
  is_ambiguous_.assign(num_pieces, false);
  std::vector<uint32_t> starting;  // by place in the piece: the symbol that is all before it
  for (uint32_t piece = 0; piece < num_pieces; ++piece) {
    const uint8_t* const text = bytes_of(vocabulary, piece);
    const size_t size = vocabulary.text(piece).size();
    const auto rank = std::lower_bound(distinct.begin(), distinct.end(), keys[piece]) - distinct.begin();
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
      merges.push_back({key_of(left, right), static_cast<int32_t>(rank), piece});
      if (!is_unused(piece)) continue;
      is_ambiguous_[piece] = parts_[piece].first != kNone;
      if (!is_ambiguous_[piece]) parts_[piece] = {left, right};
    }
    has_unused_ = has_unused_ || is_unused(piece);
  }
  build_merges(std::move(merges));
  return true;
}

bool CharacterBpe::build(const PieceVocabulary& vocabulary, const PieceTrie& user_defined,
                         const PieceMerges& merges) {
  if (merges.count >= kNoRank) return false;
  build_symbols(vocabulary, user_defined);
  parts_.assign(vocabulary.num_pieces(), {kNone, kNone});
  is_ambiguous_.assign(vocabulary.num_pieces(), false);
  std::vector<PairRanks::Entry> entries(merges.count);
  for (uint32_t i = 0; i < merges.count; ++i)
    entries[i] = {key_of(merges.left[i], merges.right[i]), static_cast<int32_t>(i), merges.result[i]};
  build_merges(std::move(entries));
  return true;
}

// The first of several of one pair counts.
void CharacterBpe::build_merges(std::vector<PairRanks::Entry> merges) {
  std::reverse(merges.begin(), merges.end());
  merges_.build(merges);
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
  if (count <= kMaxScanned && !has_unused_) {
    merge_by_scan(&count, scratch);
  } else if (!merge_by_heap(&count, is_text, scratch)) {
    return kNeedsText;
  }
  NumberWriter writer(*vocabulary_, numbers);
  for (size_t i = 0; i < count; ++i) {
    const uint32_t start = scratch.starts[i];
    write(scratch.symbols[i], text + start, scratch.starts[i + 1] - start, is_text, 0, scratch, writer);
  }
  return writer.count();
}

// A text whose symbols are merged. Before the first symbol and after the last one is kNone.
struct CharacterBpe::Lane {
  static constexpr size_t kPlaces = 20;
  static constexpr unsigned kPlaceBits = 5;
  static constexpr uint32_t kNoCandidate = UINT32_MAX;

  // By place, from 1 on. A symbol stays at the place of its first character.
  uint32_t symbols[kPlaces];
  // Of the pair of a symbol and the next: the rank and the place, the lowest of which is merged next; kNoRank
  // or kNoCandidate where there is none.
  uint32_t candidates[kPlaces];
  uint32_t results[kPlaces];
  uint32_t alive;  // a bit for each place that has a symbol, and for those of kNone
  uint32_t count;  // of the characters
  // The pairs that the last merge made, and their places.
  uint64_t keys[2];
  uint32_t slots[2];
  uint32_t places[2];

  uint32_t best() const {
    uint32_t best = kNoCandidate;
    for (size_t i = 0; i < count; i += 4) {
      const uint32_t* const four = candidates + i;
      best = std::min({best, std::min(four[0], four[1]), std::min(four[2], four[3])});
    }
    return best;
  }
};

void CharacterBpe::encode_all(Text* texts, size_t num_texts, CharacterBpeScratch& scratch) const {
  const bool has_lanes = !has_unused_ && user_defined_->empty();
  Lane lanes[kNumLanes];
  scratch.lane_texts.clear();
  for (size_t i = 0; i < num_texts; ++i) {
    if (!has_lanes || texts[i].size > kMaxLaneBytes) {
      texts[i].count = encode(texts[i].text, texts[i].size, false, scratch, texts[i].numbers);
      continue;
    }
    scratch.lane_texts.push_back(static_cast<uint32_t>(i));
  }
  const std::vector<uint32_t>& waiting = scratch.lane_texts;
  for (size_t first = 0; first < waiting.size(); first += kNumLanes) {
    const size_t num_lanes = std::min(kNumLanes, waiting.size() - first);
    for (size_t i = 0; i < num_lanes; ++i) fill(texts[waiting[first + i]], &lanes[i]);
    merge_in_lanes(lanes, num_lanes);
    for (size_t i = 0; i < num_lanes; ++i) write(lanes[i], &texts[waiting[first + i]]);
  }
}

void CharacterBpe::fill(const Text& text, Lane* lane) const {
  static_assert(kMaxLaneBytes + 2 <= Lane::kPlaces && Lane::kPlaces <= 1 << Lane::kPlaceBits);
  uint32_t* const symbols = lane->symbols;
  uint32_t count = 0;
  symbols[0] = kNone;
  for (size_t i = 0; i < text.size;) {
    const uint8_t* const character = text.text + i;
    const size_t width = character_bytes(character, text.size - i);
    symbols[++count] = width == 1 && *character < 0x80 ? ascii_[*character] : symbol_of(character, width);
    i += width;
  }
  symbols[count + 1] = kNone;
  lane->count = count;
  lane->alive = (uint32_t{1} << (count + 2)) - 1;
  for (uint32_t& candidate : lane->candidates) candidate = Lane::kNoCandidate;
  for (uint32_t i = 1; i < count; ++i) {
    const size_t slot = merges_.slot_of(key_of(symbols[i], symbols[i + 1]));
    merges_.prefetch(slot);
    lane->results[i] = static_cast<uint32_t>(slot);
  }
}

void CharacterBpe::merge_in_lanes(Lane* lanes, size_t num_lanes) const {
  constexpr uint32_t kNoPair = kNoRank << Lane::kPlaceBits;
  static_assert(kNoRank <= UINT32_MAX >> Lane::kPlaceBits);
  const auto answer = [&](Lane& lane, uint32_t place, uint64_t key, size_t slot) {
    lane.candidates[place] = static_cast<uint32_t>(merges_.rank(key, slot)) << Lane::kPlaceBits | place;
    lane.results[place] = merges_.result(slot);
  };
  uint32_t active[kNumLanes];
  for (uint32_t i = 0; i < num_lanes; ++i) {
    Lane& lane = lanes[i];
    active[i] = i;
    for (uint32_t place = 1; place < lane.count; ++place)
      answer(lane, place, key_of(lane.symbols[place], lane.symbols[place + 1]), lane.results[place]);
    // Nothing is asked yet: the first answers are of no pair.
    lane.keys[0] = lane.keys[1] = key_of(kNone, kNone);
    lane.slots[0] = lane.slots[1] = static_cast<uint32_t>(merges_.slot_of(lane.keys[0]));
    lane.places[0] = lane.places[1] = 0;
  }
  for (size_t left = num_lanes; left > 0;) {
    size_t kept = 0;
    for (size_t i = 0; i < left; ++i) {
      Lane& lane = lanes[active[i]];
      for (size_t k = 0; k < 2; ++k) answer(lane, lane.places[k], lane.keys[k], lane.slots[k]);
      const uint32_t best = lane.best();
      if (best >= kNoPair) continue;
      const uint32_t at = best & ((1 << Lane::kPlaceBits) - 1);
      const uint32_t after = lane.alive & (~uint32_t{1} << at), rest = after & (after - 1);
      const uint32_t before = lane.alive & ((uint32_t{1} << at) - 1);
      lane.alive ^= after ^ rest;
      lane.symbols[at] = lane.results[at];
      lane.candidates[std::countr_zero(after)] = Lane::kNoCandidate;
      const auto next = static_cast<uint32_t>(std::countr_zero(rest));
      const auto previous = static_cast<uint32_t>(31 - std::countl_zero(before));
      lane.places[0] = at;
      lane.places[1] = previous;
      lane.keys[0] = key_of(lane.symbols[at], lane.symbols[next]);
      lane.keys[1] = key_of(lane.symbols[previous], lane.symbols[at]);
      for (size_t k = 0; k < 2; ++k) {
        const size_t slot = merges_.slot_of(lane.keys[k]);
        merges_.prefetch(slot);
        lane.slots[k] = static_cast<uint32_t>(slot);
      }
      active[kept++] = active[i];
    }
    left = kept;
  }
}

void CharacterBpe::write(const Lane& lane, Text* text) const {
  NumberWriter writer(*vocabulary_, text->numbers);
  const auto num_pieces = static_cast<uint32_t>(vocabulary_->num_pieces());
  size_t at = 0;
  // Without the places of kNone.
  for (uint32_t rest = lane.alive & ((uint32_t{1} << (lane.count + 1)) - 2); rest != 0; rest &= rest - 1) {
    const uint32_t symbol = lane.symbols[std::countr_zero(rest)];
    if (symbol < num_pieces) {
      writer.put(symbol);
      at += symbol_size(symbol);
      continue;
    }
    const size_t width = character_bytes(text->text + at, text->size - at);
    writer.put_unknown(text->text + at, width);
    at += width;
  }
  text->count = writer.count();
}

// A symbol stays at the place of its first character. Place -1 stands for the symbol before the first, and
// kMaxScanned for the one after the last: that is what counting the zeros of an empty mask gives.
void CharacterBpe::merge_by_scan(size_t* num_symbols, CharacterBpeScratch& scratch) const {
  constexpr uint64_t kNoCandidate = UINT64_MAX;
  const size_t count = *num_symbols;
  // Of the pair of a symbol and the next: the rank and the place, the lowest of which is merged next.
  uint64_t candidate_memory[kMaxScanned + 2];
  uint32_t result_memory[kMaxScanned + 2], symbol_memory[kMaxScanned + 2];
  uint64_t* const candidates = candidate_memory + 1;
  uint32_t *const results = result_memory + 1, *const symbols = symbol_memory + 1;
  symbols[-1] = symbols[kMaxScanned] = kNone;
  std::copy_n(scratch.symbols.data(), count, symbols);
  const auto look_up = [&](ptrdiff_t at, uint32_t left, uint32_t right) {
    const Merge merge = find_merge(left, right);
    candidates[at] =
        merge.rank == kNoRank ? kNoCandidate : uint64_t{merge.rank} << 32 | static_cast<uint32_t>(at);
    results[at] = merge.result;
  };
  for (size_t i = 0; i + 1 < count; ++i) look_up(static_cast<ptrdiff_t>(i), symbols[i], symbols[i + 1]);
  uint64_t alive = ~uint64_t{0} >> (64 - count);
  for (;;) {
    uint64_t best = kNoCandidate;
    for (size_t i = 0; i + 1 < count; ++i) best = std::min(best, candidates[i]);
    if (best == kNoCandidate) break;
    const auto at = static_cast<uint32_t>(best);
    const uint64_t after = alive & (~uint64_t{1} << at), rest = after & (after - 1);
    const uint64_t before = alive & ((uint64_t{1} << at) - 1);
    alive ^= after ^ rest;
    symbols[at] = results[at];
    candidates[std::countr_zero(after)] = kNoCandidate;
    const ptrdiff_t next = std::countr_zero(rest), previous = 63 - std::countl_zero(before);
    look_up(static_cast<ptrdiff_t>(at), symbols[at], symbols[next]);
    look_up(previous, symbols[previous], symbols[at]);
  }
  size_t left = 0;
  for (uint64_t rest = alive; rest != 0; rest &= rest - 1) {
    const auto at = static_cast<size_t>(std::countr_zero(rest));
    scratch.symbols[left] = symbols[at];
    scratch.starts[left++] = scratch.starts[at];
  }
  scratch.starts[left] = scratch.starts[count];
  *num_symbols = left;
}

bool CharacterBpe::merge_by_heap(size_t* num_symbols, bool is_text, CharacterBpeScratch& scratch) const {
  const size_t count = *num_symbols;
  uint32_t* const symbols = scratch.symbols.data();
  scratch.ranks.assign(count, kNoRank);
  scratch.results.resize(count);
  scratch.previous.resize(count);
  scratch.next.resize(count);
  uint32_t* const ranks = scratch.ranks.data();
  uint32_t* const previous = scratch.previous.data();
  uint32_t* const next = scratch.next.data();
  std::vector<uint64_t>& heap = scratch.heap;
  heap.clear();

  // Notes the pair of a symbol and the next. False if that asks for the rest of the text.
  const auto look_up = [&](uint32_t left) {
    const auto [rank, piece] = find_merge(symbols[left], symbols[next[left]]);
    ranks[left] = rank;
    if (rank == kNoRank) return true;
    scratch.results[left] = piece;
    heap.push_back(uint64_t{rank} << 32 | left);
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
    if (ranks[left] != top >> 32) continue;
    const uint32_t right = next[left];
    symbols[left] = scratch.results[left];
    ranks[left] = ranks[right] = kNoRank;
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
