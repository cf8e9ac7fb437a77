#include "encode/symbol_bpe.h"

#include <algorithm>
#include <functional>

#include "scan/character.h"

namespace tokcore {
namespace {

constexpr uint32_t kNone = UINT32_MAX;
constexpr uint32_t kMalformed = 0xDC00;  // + byte: a code point that no text has

}  // namespace

VocabularyResult SymbolBpe::build(const SymbolVocabulary& vocabulary) {
  const size_t num_symbols = vocabulary.num_symbols;
  if (num_symbols >= kNone - 256 || vocabulary.num_merges >= static_cast<size_t>(PairRanks::kNoRank)) {
    return {VocabularyStatus::kTooLarge, std::max(num_symbols, vocabulary.num_merges)};
  }
  external_.assign(vocabulary.token_ids, vocabulary.token_ids + num_symbols);
  for (size_t i = 0; i < num_symbols; ++i) {
    if (external_[i] < 0) return {VocabularyStatus::kNegativeId, i};
  }
  const auto is_symbol = [&](int64_t symbol) { return symbol < static_cast<int64_t>(num_symbols); };
  characters_.reset(vocabulary.num_characters);
  for (size_t i = 0; i < vocabulary.num_characters; ++i) {
    if (!is_symbol(vocabulary.symbols[i])) return {VocabularyStatus::kUnknownSymbol, i};
    characters_.add(character_key(vocabulary.characters[i], vocabulary.places[i] & 3), vocabulary.symbols[i]);
  }
  if (vocabulary.byte_symbols != nullptr) {
    byte_symbols_.assign(vocabulary.byte_symbols, vocabulary.byte_symbols + 256);
    for (size_t i = 0; i < 256; ++i) {
      if (!is_symbol(byte_symbols_[i])) return {VocabularyStatus::kUnknownSymbol, i};
    }
  }
  if (!is_symbol(vocabulary.unknown)) return {VocabularyStatus::kUnknownSymbol, 0};
  unknown_ = vocabulary.unknown;
  fuses_unknown_ = vocabulary.fuses_unknown;
  bytewise_ = vocabulary.bytewise;

  std::vector<PairRanks::Entry> entries(vocabulary.num_merges);
  for (size_t i = 0; i < entries.size(); ++i) {
    for (const uint32_t symbol : {vocabulary.left[i], vocabulary.right[i], vocabulary.result[i]}) {
      if (!is_symbol(symbol)) return {VocabularyStatus::kUnknownId, i};
    }
    entries[i] = {pair_key(vocabulary.left[i], vocabulary.right[i]), static_cast<int32_t>(i),
                  vocabulary.result[i]};
  }
  merges_.build(entries);

  whole_data_.assign(reinterpret_cast<const char*>(vocabulary.whole_data), vocabulary.whole_data_size);
  const std::string_view data = whole_data_;
  for (size_t i = 0; i < vocabulary.num_whole; ++i) {
    const int64_t begin = vocabulary.whole_offsets[i], end = vocabulary.whole_offsets[i + 1];
    if (begin < 0 || end < begin || static_cast<uint64_t>(end) > data.size())
      return {VocabularyStatus::kBadOffsets, i};
    if (!is_symbol(vocabulary.whole_symbols[i])) return {VocabularyStatus::kUnknownSymbol, i};
    whole_.emplace(data.substr(static_cast<size_t>(begin), static_cast<size_t>(end - begin)),
                   vocabulary.whole_symbols[i]);
  }
  return {VocabularyStatus::kOk, 0};
}

bool SymbolBpe::spell_bytes(const uint8_t* text, size_t size, std::vector<uint32_t>& symbols) const {
  if (byte_symbols_.empty()) return false;
  if (!std::all_of(text, text + size, [&](uint8_t byte) { return byte_symbols_[byte] >= 0; })) return false;
  for (size_t i = 0; i < size; ++i) symbols.push_back(static_cast<uint32_t>(byte_symbols_[text[i]]));
  return true;
}

void SymbolBpe::split(const Piece& piece, std::vector<uint32_t>& symbols) const {
  symbols.clear();
  bool has_waiting = false;  // an unknown symbol that is not written yet
  const auto write_waiting = [&] {
    if (has_waiting) symbols.push_back(static_cast<uint32_t>(unknown_));
    has_waiting = false;
  };
  for (size_t i = 0, size; i < piece.size; i += size) {
    uint32_t character = piece.text[i];
    size = 1;
    if (!bytewise_ && character >= 0x80) {
      const CodePoint found = multibyte_code_point_at(piece.text, piece.size, i);
      size = found.size;
      character = found.value == kNoCodePoint ? kMalformed + piece.text[i] : found.value;
    }
    const bool is_first = i == 0, is_last = i + size == piece.size;
    const unsigned place = is_first ? (is_last ? 0 : 1) : (is_last ? 3 : 2);
    const uint32_t symbol = characters_.find(character_key(character, place));
    if (symbol != NumberTable::kNone) {
      write_waiting();
      symbols.push_back(symbol);
    } else if (!spell_bytes(piece.text + i, size, symbols) && unknown_ >= 0) {
      if (!fuses_unknown_) write_waiting();
      has_waiting = true;
    }
  }
  write_waiting();
}

void SymbolBpe::merge_by_scan(std::vector<uint32_t>& symbols) const {
  while (symbols.size() > 1) {
    int32_t best = PairRanks::kNoRank;
    size_t place = 0;
    uint32_t merged = 0;
    for (size_t i = 0; i + 1 < symbols.size(); ++i) {
      uint32_t result;
      const int32_t rank = find_rank(symbols[i], symbols[i + 1], &result);
      if (rank >= best) continue;
      best = rank;
      place = i;
      merged = result;
    }
    if (best == PairRanks::kNoRank) return;
    symbols[place] = merged;
    symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(place) + 1);
  }
}

void SymbolBpe::merge_by_heap(PieceScratch& scratch) const {
  std::vector<uint32_t>& symbols = scratch.symbols;
  const size_t count = symbols.size();
  std::vector<uint32_t>&previous = scratch.previous, &next = scratch.next, &ranks = scratch.ranks;
  std::vector<uint64_t>& heap = scratch.heap;
  constexpr auto kNoRank = static_cast<uint32_t>(PairRanks::kNoRank);
  previous.resize(count);
  next.resize(count);
  ranks.assign(count, kNoRank);
  heap.clear();
  // Notes the pair of a symbol and the next one.
  const auto look_up = [&](uint32_t left) {
    uint32_t result;
    ranks[left] = static_cast<uint32_t>(find_rank(symbols[left], symbols[next[left]], &result));
    if (ranks[left] == kNoRank) return false;
    heap.push_back(uint64_t{ranks[left]} << 32 | left);
    return true;
  };
  const auto add = [&](uint32_t left) {
    if (look_up(left)) std::push_heap(heap.begin(), heap.end(), std::greater<>());
  };
  for (size_t i = 0; i < count; ++i) {
    previous[i] = static_cast<uint32_t>(i) - 1;
    next[i] = i + 1 < count ? static_cast<uint32_t>(i) + 1 : kNone;
  }
  for (size_t i = 0; i + 1 < count; ++i) look_up(static_cast<uint32_t>(i));
  std::make_heap(heap.begin(), heap.end(), std::greater<>());
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), std::greater<>());
    const uint64_t top = heap.back();
    heap.pop_back();
    const auto left = static_cast<uint32_t>(top);
    // A symbol that is gone has no pair; one whose neighbour changed has another.
    if (ranks[left] != top >> 32) continue;
    const uint32_t right = next[left];
    uint32_t result;
    find_rank(symbols[left], symbols[right], &result);
    symbols[left] = result;
    ranks[left] = ranks[right] = kNoRank;
    next[left] = next[right];
    if (next[left] != kNone) previous[next[left]] = left;
    if (previous[left] != kNone) add(previous[left]);
    if (next[left] != kNone) add(left);
  }
  size_t left = 0;
  for (uint32_t i = 0; i != kNone; i = next[i]) symbols[left++] = symbols[i];
  symbols.resize(left);
}

void SymbolBpe::encode(Piece& piece, PieceScratch& scratch) const {
  if (!whole_.empty()) {
    const auto found = whole_.find({reinterpret_cast<const char*>(piece.text), piece.size});
    if (found != whole_.end()) {
      piece.ids[0] = external_[found->second];
      piece.count = 1;
      return;
    }
  }
  split(piece, scratch.symbols);
  if (scratch.symbols.size() <= kMaxScanned) {
    merge_by_scan(scratch.symbols);
  } else {
    merge_by_heap(scratch);
  }
  piece.count = 0;
  for (const uint32_t symbol : scratch.symbols) piece.ids[piece.count++] = external_[symbol];
}

void SymbolBpe::encode(Piece* pieces, size_t num_pieces, PieceScratch& scratch) const {
  for (size_t i = 0; i < num_pieces; ++i) encode(pieces[i], scratch);
}

}  // namespace tokcore
