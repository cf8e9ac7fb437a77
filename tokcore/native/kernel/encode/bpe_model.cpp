#include "encode/bpe_model.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <functional>
#include <numeric>
#include <utility>

#include "memory/hash.h"

namespace tokcore {
namespace {

// The smallest power of two that leaves a hash table of that many entries at most half full.
size_t table_size(size_t entries) { return std::bit_ceil(std::max<size_t>(2 * entries, 16)); }

unsigned shift_of(size_t table) { return 64 - static_cast<unsigned>(std::countr_zero(table)); }

uint64_t hash_of(const uint8_t* text, size_t size) { return hash_bytes(text, size, text + size); }

// External id, not negative -> position in the vocabulary; open addressing.
class IdIndex {
 public:
  explicit IdIndex(const Vocabulary& vocabulary)
      : ids_(vocabulary.token_ids),
        slots_(table_size(vocabulary.num_tokens), UINT32_MAX),
        shift_(shift_of(slots_.size())),
        duplicate_(vocabulary.num_tokens) {
    for (size_t i = vocabulary.num_tokens; i-- > 0;) {
      uint32_t& slot = slot_of(ids_[i]);
      if (slot != UINT32_MAX) duplicate_ = slot;
      slot = static_cast<uint32_t>(i);
    }
  }

  // The position of a token that has the id of an earlier token; num_tokens if there is none.
  size_t duplicate() const { return duplicate_; }

  // False if there is no such token.
  bool find(int32_t id, uint32_t* position) {
    *position = slot_of(id);
    return *position != UINT32_MAX;
  }

 private:
  uint32_t& slot_of(int32_t id) {
    for (size_t i = uint64_t{static_cast<uint32_t>(id)} * 0x9E3779B97F4A7C15u >> shift_;;
         i = (i + 1) & (slots_.size() - 1)) {
      if (slots_[i] == UINT32_MAX || ids_[slots_[i]] == id) return slots_[i];
    }
  }

  const int32_t* ids_;
  std::vector<uint32_t> slots_;
  unsigned shift_;
  size_t duplicate_;
};

}  // namespace

void BpeModel::TokenIndex::reset(size_t num_tokens) {
  slots_.assign(table_size(num_tokens), Slot{0, kNone});
  mask_ = slots_.size() - 1;
  longest_ = 0;
}

bool BpeModel::TokenIndex::insert(const BpeModel& model, uint32_t token) {
  const uint8_t* const text = model.token_data(token);
  const size_t size = model.token_size(token);
  const uint64_t hash = hash_of(text, size);
  const auto tag = static_cast<uint32_t>(hash >> 32);
  size_t slot = hash & mask_;
  for (; slots_[slot].token != kNone; slot = (slot + 1) & mask_) {
    const uint32_t other = slots_[slot].token;
    if (slots_[slot].tag == tag && model.token_size(other) == size &&
        std::memcmp(model.token_data(other), text, size) == 0) {
      return false;
    }
  }
  slots_[slot] = {tag, token};
  longest_ = std::max(longest_, size);
  return true;
}

uint32_t BpeModel::TokenIndex::find(const BpeModel& model, const uint8_t* text, size_t size) const {
  if (size > longest_) return kNone;
  const uint64_t hash = hash_of(text, size);
  for (size_t slot = hash & mask_; slots_[slot].token != kNone; slot = (slot + 1) & mask_) {
    const uint32_t token = slots_[slot].token;
    if (slots_[slot].tag == static_cast<uint32_t>(hash >> 32) && model.token_size(token) == size &&
        std::memcmp(model.token_data(token), text, size) == 0) {
      return token;
    }
  }
  return kNone;
}

void BpeModel::Trie::build(const BpeModel& model, size_t num_tokens) {
  // Count the edges first, so that nodes, which are slots, never move. Each byte that a token does not share
  // with the one before it in sorted order is an edge.
  std::vector<uint32_t> sorted(num_tokens);
  for (size_t i = 0; i < num_tokens; ++i) sorted[i] = static_cast<uint32_t>(i);
  const auto order = [&](uint32_t a, uint32_t b) {
    const int compared = std::memcmp(model.token_data(a), model.token_data(b),
                                     std::min(model.token_size(a), model.token_size(b)));
    return compared != 0 ? compared < 0 : model.token_size(a) < model.token_size(b);
  };
  std::sort(sorted.begin(), sorted.end(), order);
  const auto shared = [&](size_t i) {  // bytes shared with the token before
    if (i == 0) return size_t{0};
    const uint8_t* a = model.token_data(sorted[i - 1]);
    const uint8_t* b = model.token_data(sorted[i]);
    const size_t size = std::min(model.token_size(sorted[i - 1]), model.token_size(sorted[i]));
    return static_cast<size_t>(std::mismatch(a, a + size, b).first - a);
  };
  size_t num_edges = 0;
  for (size_t i = 0; i < num_tokens; ++i) num_edges += model.token_size(sorted[i]) - shared(i);

  const size_t size = table_size(num_edges);
  edges_.assign(size, kNoEdge);
  tokens_.assign(size, kNone);
  mask_ = size - 1;
  shift_ = shift_of(size);
  const auto add = [&](uint64_t edge) {
    size_t slot = first_slot(edge);
    while (edges_[slot] != kNoEdge) slot = (slot + 1) & mask_;
    edges_[slot] = edge;
    return static_cast<uint32_t>(slot);
  };
  const uint64_t root = size;  // not a slot
  std::vector<uint32_t> path;  // nodes of the token before
  for (size_t i = 0; i < num_tokens; ++i) {
    path.resize(shared(i));
    for (size_t at = path.size(); at < model.token_size(sorted[i]); ++at) {
      const uint64_t parent = at == 0 ? root : path.back();
      path.push_back(add(parent << 8 | model.token_data(sorted[i])[at]));
    }
    tokens_[path.back()] = sorted[i];
  }
  for (uint32_t byte = 0; byte < 256; ++byte)
    root_[byte] = child(static_cast<uint32_t>(root), static_cast<uint8_t>(byte));
}

VocabularyResult BpeModel::build(const Vocabulary& vocabulary) {
  constexpr uint64_t kMaxBytes = uint64_t{1}
                                 << 30;  // the trie has at most twice as many nodes, with 32-bit numbers
  const size_t num_tokens = vocabulary.num_tokens;
  for (size_t i = 0; i < num_tokens; ++i) {
    const int64_t begin = vocabulary.offsets[i], end = vocabulary.offsets[i + 1];
    if (begin < 0 || end < begin || static_cast<uint64_t>(end) > vocabulary.data_size) {
      return {VocabularyStatus::kBadOffsets, i};
    }
    if (begin == end) return {VocabularyStatus::kEmptyToken, i};
    if (vocabulary.token_ids[i] < 0) return {VocabularyStatus::kNegativeId, i};
  }
  if (num_tokens > 0) {
    const auto total = static_cast<uint64_t>(vocabulary.offsets[num_tokens] - vocabulary.offsets[0]);
    if (total > kMaxBytes) return {VocabularyStatus::kTooLarge, total};
  }
  IdIndex positions(vocabulary);
  if (const size_t duplicate = positions.duplicate(); duplicate < num_tokens) {
    return {VocabularyStatus::kDuplicateId, duplicate};
  }
  const auto data_of = [&](uint32_t position) { return vocabulary.data + vocabulary.offsets[position]; };
  const auto size_of = [&](uint32_t position) {
    return static_cast<size_t>(vocabulary.offsets[position + 1] - vocabulary.offsets[position]);
  };

  std::vector<Merge> merges(vocabulary.num_merges);
  for (size_t i = 0; i < merges.size(); ++i) {
    Merge& merge = merges[i];
    if (!positions.find(vocabulary.left[i], &merge.left) ||
        !positions.find(vocabulary.right[i], &merge.right) ||
        !positions.find(vocabulary.result[i], &merge.result)) {
      return {VocabularyStatus::kUnknownId, i};
    }
    const size_t left_size = size_of(merge.left);
    if (left_size + size_of(merge.right) != size_of(merge.result) ||
        std::memcmp(data_of(merge.left), data_of(merge.result), left_size) != 0 ||
        std::memcmp(data_of(merge.right), data_of(merge.result) + left_size, size_of(merge.right)) != 0) {
      return {VocabularyStatus::kNotJoined, i};
    }
    merge.priority = vocabulary.priority[i];
  }
  std::vector<uint32_t> numbers;
  VocabularyResult numbered = number_tokens(vocabulary, &merges, &numbers);
  if (numbered.status != VocabularyStatus::kOk) return numbered;
  find_own_encodings(merges, numbers, vocabulary.whole);
  if (!well_formed_ && drop_dead_merges(numbers, &merges)) {
    numbered = number_tokens(vocabulary, &merges, &numbers);
    if (numbered.status != VocabularyStatus::kOk) return numbered;
    find_own_encodings(merges, numbers, vocabulary.whole);
  }
  if (!well_formed_) parts_.clear();
  cuts_.build(bytes_.data(), starts_.data(), num_tokens);
  return {VocabularyStatus::kOk, 0};
}

// Gives tokens their numbers and merges their ranks, and builds what looks them up.
VocabularyResult BpeModel::number_tokens(const Vocabulary& vocabulary, std::vector<Merge>* merges,
                                         std::vector<uint32_t>* numbers) {
  const size_t num_tokens = vocabulary.num_tokens;
  const auto data_of = [&](uint32_t position) { return vocabulary.data + vocabulary.offsets[position]; };
  const auto size_of = [&](uint32_t position) {
    return static_cast<size_t>(vocabulary.offsets[position + 1] - vocabulary.offsets[position]);
  };
  // Ranks: priorities without gaps.
  std::vector<uint32_t> by_priority(merges->size());
  std::iota(by_priority.begin(), by_priority.end(), uint32_t{0});
  const auto lower = [&](uint32_t a, uint32_t b) { return (*merges)[a].priority < (*merges)[b].priority; };
  if (!std::is_sorted(by_priority.begin(), by_priority.end(), lower))  // nearly always they are
    std::stable_sort(by_priority.begin(), by_priority.end(), lower);
  std::vector<uint32_t> result_at_rank;  // positions
  for (size_t i = 0; i < merges->size(); ++i) {
    Merge& merge = (*merges)[by_priority[i]];
    if (i == 0 || merge.priority != (*merges)[by_priority[i - 1]].priority)
      result_at_rank.push_back(merge.result);
    if (result_at_rank.back() != merge.result) return {VocabularyStatus::kPrioritiesClash, by_priority[i]};
    merge.rank = static_cast<uint32_t>(result_at_rank.size() - 1);
  }
  if (result_at_rank.size() >= static_cast<size_t>(PairRanks::kNoRank))
    return {VocabularyStatus::kTooLarge, result_at_rank.size()};

  // Give every token its number: bytes, results of merges by rank, the rest.
  numbers->assign(num_tokens, kNone);
  std::vector<uint32_t> position_of(256, kNone);
  for (uint32_t i = 0; i < num_tokens; ++i) {
    if (size_of(i) != 1) continue;
    const uint8_t byte = data_of(i)[0];
    if (position_of[byte] != kNone) return {VocabularyStatus::kDuplicateToken, i};
    position_of[byte] = i;
    (*numbers)[i] = byte;
  }
  for (size_t byte = 0; byte < 256; ++byte) {
    if (position_of[byte] == kNone) return {VocabularyStatus::kMissingByte, byte};
  }
  const auto number = [&](uint32_t position) {
    if ((*numbers)[position] != kNone) return;
    (*numbers)[position] = static_cast<uint32_t>(position_of.size());
    position_of.push_back(position);
  };
  for (const uint32_t position : result_at_rank) number(position);
  num_reachable_ = position_of.size();
  for (uint32_t i = 0; i < num_tokens; ++i) number(i);

  bytes_.clear();
  starts_.assign(1, 0);
  external_.clear();
  for (const uint32_t position : position_of) {
    bytes_.insert(bytes_.end(), data_of(position), data_of(position) + size_of(position));
    starts_.push_back(bytes_.size());
    external_.push_back(vocabulary.token_ids[position]);
  }
  is_external_ = true;
  for (size_t token = 256; token < num_reachable_; ++token)
    is_external_ &= external_[token] == static_cast<int32_t>(token);
  result_of_rank_.clear();
  for (const uint32_t position : result_at_rank) result_of_rank_.push_back((*numbers)[position]);
  pairs_.build(list_pairs(*merges, *numbers));

  whole_.reset(num_tokens);
  for (uint32_t token = 0; token < num_tokens; ++token) {
    if (!whole_.insert(*this, token)) return {VocabularyStatus::kDuplicateToken, position_of[token]};
  }
  return {VocabularyStatus::kOk, 0};
}

std::vector<PairRanks::Entry> BpeModel::list_pairs(const std::vector<Merge>& merges,
                                                   const std::vector<uint32_t>& numbers) {
  std::vector<PairRanks::Entry> pairs;
  pairs.reserve(merges.size());
  for (const Merge& merge : merges) {
    pairs.push_back(
        {PairRanks::key(numbers[merge.left], numbers[merge.right]), static_cast<int32_t>(merge.rank)});
  }
  return pairs;
}

// A token is only ever made by the merge that is the last one for its own bytes: what is merged within those
// bytes, before anything is merged with what lies around them, is the same in every text. So a merge does
// nothing if it is another one, or if the bytes of its result end as anything else. Without these, nearly
// every published vocabulary is well-formed. Returns whether there were any.
bool BpeModel::drop_dead_merges(const std::vector<uint32_t>& numbers, std::vector<Merge>* merges) const {
  return std::erase_if(*merges, [&](const Merge& merge) {
           const uint32_t token = numbers[merge.result];
           const LastMerge& last = parts_[token];
           return !is_own_[token] || last.left != numbers[merge.left] || last.right != numbers[merge.right];
         }) > 0;
}

void BpeModel::find_own_encodings(const std::vector<Merge>& merges, const std::vector<uint32_t>& numbers,
                                  bool whole) {
  const size_t num_tokens = external_.size(), num_reachable = num_reachable_;
  is_own_.assign(num_tokens, false);
  parts_.assign(num_reachable, LastMerge{kNone, kNone});
  well_formed_ = num_reachable == 256 + result_of_rank_.size();  // no token has two ranks
  // If each token has one merge, as in every learned vocabulary, its parts are those of that merge.
  const bool has_one_merge_each = well_formed_ && merges.size() == result_of_rank_.size();
  if (has_one_merge_each) {
    find_own_in_lanes();
    for (const Merge& merge : merges) {
      parts_[numbers[merge.result]] = {numbers[merge.left], numbers[merge.right]};
    }
  }
  PieceScratch scratch;
  for (uint32_t token = 0; token < num_tokens; ++token) {
    if (token < 256) {
      is_own_[token] = true;
      parts_[token] = {token, token};
      continue;
    }
    if (!has_one_merge_each || token_size(token) > kMaxLaneBytes) {
      LastMerge last{kNone, kNone};
      const size_t size = token_size(token);
      const size_t count = size <= kMaxLaneBytes ? merge_by_scan(token_data(token), size, scratch, &last)
                                                 : merge_by_heap(token_data(token), size, scratch, &last);
      is_own_[token] = count == 1 && scratch.symbols[0] == token;
      if (token < num_reachable) parts_[token] = last;
    }
    if (token < num_reachable) {
      const LastMerge& last = parts_[token];
      if (!is_own_[token] || last.left >= token || last.right >= token) well_formed_ = false;
    }
  }
  // A pre-token may become the token of the same bytes at once if those bytes encode to it.
  const bool all_own = std::find(is_own_.begin(), is_own_.end(), false) == is_own_.end();
  whole_decides_ = whole && !all_own;
  if (!whole && !all_own) {
    whole_.reset(num_tokens);
    for (uint32_t token = 0; token < num_tokens; ++token) {
      if (is_own_[token]) whole_.insert(*this, token);
    }
  }
  odd_.reset(whole_decides_ ? static_cast<size_t>(std::count(is_own_.begin(), is_own_.end(), false)) : 0);
  for (uint32_t token = 256; whole_decides_ && token < num_tokens; ++token) {
    if (!is_own_[token]) odd_.insert(*this, token);
  }
  if (!well_formed_) return;
  // In a well-formed vocabulary only one pair ever becomes a token, so the table needs only that pair.
  if (!has_one_merge_each) {
    std::vector<PairRanks::Entry> pairs;
    for (uint32_t token = 256; token < num_reachable; ++token) {
      pairs.push_back(
          {PairRanks::key(parts_[token].left, parts_[token].right), static_cast<int32_t>(token - 256)});
    }
    pairs_.build(pairs);
  }
}

void BpeModel::make_matching() const {
  matching_.trie.build(*this, num_reachable_);
  matching_.longest_prefix.assign(num_reachable_, kNone);
  for (uint32_t token = 256; token < num_reachable_; ++token) {
    matching_.longest_prefix[token] = matching_.trie.longest(token_data(token), token_size(token) - 1);
  }
}

// For tokens that fit lanes: merging several side by side is quicker than one after the other.
void BpeModel::find_own_in_lanes() {
  const MergeTables tables{pairs_, result_of_rank_.data(), external_.data(), is_external_};
  std::vector<Piece> pieces;
  std::vector<Piece*> waiting;
  std::vector<uint32_t> tokens;
  std::vector<int32_t> ids(kMaxPiecesInLanes * kMaxLaneBytes);
  const uint8_t* const limit = bytes_.data() + bytes_.size();
  for (uint32_t token = 256; token < external_.size(); ++token) {
    if (token_size(token) <= kMaxLaneBytes) {
      tokens.push_back(token);
      pieces.push_back({token_data(token), token_size(token), limit, nullptr, 0, 0});
    }
    if (pieces.size() < kMaxPiecesInLanes && token + 1 < external_.size()) continue;
    waiting.clear();
    for (size_t i = 0; i < pieces.size(); ++i) {
      pieces[i].ids = &ids[i * kMaxLaneBytes];
      waiting.push_back(&pieces[i]);
    }
    merge_(tables, waiting.data(), waiting.size());
    for (size_t i = 0; i < pieces.size(); ++i)
      is_own_[tokens[i]] = pieces[i].count == 1 && pieces[i].ids[0] == external_[tokens[i]];
    tokens.clear();
    pieces.clear();
  }
}

// Whether a pre-token may be cut where no token crosses: not if it is an odd token, nor if a part would be
// taken for one.
bool BpeModel::may_cut(const uint8_t* text, size_t size) const {
  if (odd_.find(*this, text, size) != kNone) return false;
  for (size_t begin = 0, end; begin < size; begin = end) {
    end = cuts_.next(text, size, begin);
    if (odd_.find(*this, text + begin, end - begin) != kNone) return false;
  }
  return true;
}

void BpeModel::encode(Piece* pieces, size_t num_pieces, PieceScratch& scratch) const {
  std::vector<Piece*>& waiting = scratch.waiting;
  waiting.clear();
  for (size_t i = 0; i < num_pieces; ++i) {
    Piece& piece = pieces[i];
    const bool is_long = piece.size > kMaxLaneBytes;
    if (is_long || whole_decides_) {  // a short one that is no odd token becomes the same by merging
      const TokenIndex& index = is_long ? whole_ : odd_;
      if (const uint32_t token = index.find(*this, piece.text, piece.size); token != kNone) {
        piece.ids[0] = external_[token];
        piece.count = 1;
        continue;
      }
    }
    if (piece.size > kMaxLaneBytes) {
      piece.count = encode_long(piece, scratch);
    } else {
      waiting.push_back(&piece);
    }
  }
  const MergeTables tables{pairs_, well_formed_ ? nullptr : result_of_rank_.data(), external_.data(),
                           is_external_};
  for (size_t i = 0; i < waiting.size(); i += kMaxPiecesInLanes)
    merge_(tables, waiting.data() + i, std::min(kMaxPiecesInLanes, waiting.size() - i));
}

// As merge_by_heap: of few symbols, to look at all ranks is quicker.
size_t BpeModel::merge_by_scan(const uint8_t* text, size_t size, PieceScratch& scratch,
                               LastMerge* last) const {
  uint32_t ranks[kMaxLaneBytes + 1];  // of each symbol and the one after it
  scratch.symbols.assign(text, text + size);
  uint32_t* const symbols = scratch.symbols.data();
  size_t count = size;
  const auto rank_at = [&](size_t i) { return i + 1 < count ? rank_of(symbols[i], symbols[i + 1]) : kNone; };
  for (size_t i = 0; i < count; ++i) ranks[i] = rank_at(i);
  for (;;) {
    const auto at = static_cast<size_t>(std::min_element(ranks, ranks + count) - ranks);
    if (ranks[at] == kNone) return count;
    *last = {symbols[at], symbols[at + 1]};
    symbols[at] = result_of_rank_[ranks[at]];
    std::copy(symbols + at + 2, symbols + count, symbols + at + 1);
    std::copy(ranks + at + 2, ranks + count, ranks + at + 1);
    --count;
    ranks[at] = rank_at(at);
    if (at > 0) ranks[at - 1] = rank_at(at - 1);
  }
}

size_t BpeModel::merge_by_heap(const uint8_t* text, size_t size, PieceScratch& scratch,
                               LastMerge* last) const {
  // A heap entry is a rank and a position in one number; the smallest is the next merge. An entry is stale if
  // the pair at its position has another rank by now.
  scratch.symbols.resize(size);
  scratch.ranks.resize(size);
  scratch.previous.resize(size);
  scratch.next.resize(size);
  uint32_t* symbols = scratch.symbols.data();
  uint32_t* ranks = scratch.ranks.data();
  uint32_t* previous = scratch.previous.data();
  uint32_t* next = scratch.next.data();
  const uint32_t end = static_cast<uint32_t>(size);
  std::vector<uint64_t>& heap = scratch.heap;
  heap.clear();
  for (uint32_t i = 0; i < end; ++i) {
    symbols[i] = text[i];
    previous[i] = i - 1;  // wraps to kNone at 0
    next[i] = i + 1;
  }
  for (uint32_t i = 0; i < end; ++i) {
    ranks[i] = i + 1 < end ? rank_of(symbols[i], symbols[i + 1]) : kNone;
    if (ranks[i] != kNone) heap.push_back(uint64_t{ranks[i]} << 32 | i);
  }
  std::make_heap(heap.begin(), heap.end(), std::greater<>());
  const auto renew = [&](uint32_t at) {
    ranks[at] = next[at] < end ? rank_of(symbols[at], symbols[next[at]]) : kNone;
    if (ranks[at] == kNone) return;
    heap.push_back(uint64_t{ranks[at]} << 32 | at);
    std::push_heap(heap.begin(), heap.end(), std::greater<>());
  };
  while (!heap.empty()) {
    const uint64_t entry = heap.front();
    std::pop_heap(heap.begin(), heap.end(), std::greater<>());
    heap.pop_back();
    const uint32_t at = static_cast<uint32_t>(entry);
    const uint32_t rank = static_cast<uint32_t>(entry >> 32);
    if (ranks[at] != rank) continue;
    const uint32_t gone = next[at];
    if (last != nullptr) *last = {symbols[at], symbols[gone]};
    symbols[at] = result_of_rank_[rank];
    ranks[gone] = kNone;
    next[at] = next[gone];
    if (next[at] < end) previous[next[at]] = at;
    renew(at);
    if (previous[at] != kNone) renew(previous[at]);
  }
  size_t count = 0;
  for (uint32_t i = 0; i < end; i = next[i]) symbols[count++] = symbols[i];
  return count;
}

}  // namespace tokcore
