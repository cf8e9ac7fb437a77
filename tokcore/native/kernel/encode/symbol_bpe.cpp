#include "encode/symbol_bpe.h"

#include <algorithm>

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

  for (size_t i = 0; i < vocabulary.num_merges; ++i) {
    for (const uint32_t symbol : {vocabulary.left[i], vocabulary.right[i], vocabulary.result[i]}) {
      if (!is_symbol(symbol)) return {VocabularyStatus::kUnknownId, i};
    }
  }
  merges_.build(vocabulary.left, vocabulary.right, vocabulary.result, vocabulary.num_merges);

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
  merges_.merge(scratch);
  piece.count = 0;
  for (const uint32_t symbol : scratch.symbols) piece.ids[piece.count++] = external_[symbol];
}

void SymbolBpe::encode(Piece* pieces, size_t num_pieces, PieceScratch& scratch) const {
  for (size_t i = 0; i < num_pieces; ++i) encode(pieces[i], scratch);
}

}  // namespace tokcore
