#include "scanner_avx2.h"

#include "scanner_portable.h"

#if defined(__AVX2__) && defined(__BMI__) && defined(__LZCNT__)

#include <immintrin.h>

#include <cstring>

#include "boundary_algebra.h"
#include "character.h"
#include "class_masks.h"

namespace tokcore {
namespace {

constexpr size_t kMaxWords = 32;      // classified at once; their masks stay in the first-level cache
constexpr size_t kReadAhead = 4;      // bytes after a word that decoding its last character may touch
constexpr size_t kMinWideBytes = 24;  // less is quicker one by one

// One word of text and as much of what follows as decoding reads; copied where the text ends too soon.
struct PaddedWord {
  alignas(32) uint8_t bytes[kWordBytes + kReadAhead];
};

// 64 bytes, each with the bits of ASCII class that kLow and kHigh give it.
struct Word {
  __m256i low, high;

  static Word load(const uint8_t* bytes) {
    return {_mm256_loadu_si256(reinterpret_cast<const __m256i*>(bytes)),
            _mm256_loadu_si256(reinterpret_cast<const __m256i*>(bytes + 32))};
  }

  // Bit `bit` of every byte.
  template <int bit>
  uint64_t mask() const {
    const auto part = [](__m256i bytes) {
      return static_cast<uint32_t>(_mm256_movemask_epi8(_mm256_slli_epi16(bytes, 7 - bit)));
    };
    return part(low) | static_cast<uint64_t>(part(high)) << 32;
  }

  // The bytes that are `least` or greater.
  uint64_t at_least(uint8_t least) const {
    const __m256i bound = _mm256_set1_epi8(static_cast<char>(least));
    const auto part = [bound](__m256i bytes) {
      return static_cast<uint32_t>(
          _mm256_movemask_epi8(_mm256_cmpeq_epi8(_mm256_max_epu8(bytes, bound), bytes)));
    };
    return part(low) | static_cast<uint64_t>(part(high)) << 32;
  }

  template <typename Function>
  Word map(Function function) const {
    return {function(low), function(high)};
  }
};

__m256i twice(__m128i table) { return _mm256_broadcastsi128_si256(table); }

// Classes of ASCII by the two halves of a byte: a byte has the bits that both halves allow.
enum AsciiBit : int {
  kLetterAToO,  // 41 to 4F, 61 to 6F
  kLetterPToZ,  // 50 to 5A, 70 to 7A
  kDigit,
  kControlSpace,  // TAB, LF, VT, FF, CR
  kBlank,
  kApostrophe,
  kLineEnd,
  kSlash,
};

Word ascii_classes(const Word& text) {
  const __m256i by_low =
      twice(_mm_setr_epi8(0x02 | 0x04 | 0x10, 0x07, 0x07, 0x07, 0x07, 0x07, 0x07, 0x07 | 0x20, 0x07,
                          0x07 | 0x08, 0x03 | 0x08 | 0x40, 0x01 | 0x08, 0x01 | 0x08, 0x01 | 0x08 | 0x40, 0x01,
                          static_cast<char>(0x01 | 0x80)));
  const __m256i by_high = twice(_mm_setr_epi8(0x08 | 0x40, 0, static_cast<char>(0x10 | 0x20 | 0x80), 0x04,
                                              0x01, 0x02, 0x01, 0x02, 0, 0, 0, 0, 0, 0, 0, 0));
  const __m256i nibble = _mm256_set1_epi8(0x0F);
  return text.map([=](__m256i bytes) {
    const __m256i high = _mm256_and_si256(_mm256_srli_epi16(bytes, 4), nibble);
    return _mm256_and_si256(_mm256_shuffle_epi8(by_low, bytes), _mm256_shuffle_epi8(by_high, high));
  });
}

// The bits that a byte has in both of two tables, by its lower and by its upper half.
struct NibbleTables {
  __m256i by_low, by_high;

  __m256i operator()(__m256i bytes) const {
    const __m256i nibble = _mm256_set1_epi8(0x0F);
    const __m256i low = _mm256_and_si256(bytes, nibble);
    const __m256i high = _mm256_and_si256(_mm256_srli_epi16(bytes, 4), nibble);
    return _mm256_and_si256(_mm256_shuffle_epi8(by_low, low), _mm256_shuffle_epi8(by_high, high));
  }
};

// First bytes of characters that two bytes show to be letters: most of Latin, Cyrillic, Han and Hangul needs
// no table. Each rule has a bit, that a first byte asks for and a second one grants:
//   0: C4 to CA   1: D0, D1, D3, DA   2: E5 to E9, EB, EC   and any second byte
//   3: E4, B8 to BF   4: EA, B0 to BF   5: ED, 80 to 8D and 90 to 9D
//   6: C3, 80 to 8F and A0 to AF   7: C3, 90 to 9F and B0 to BF, but for 97 and B7 (the signs of arithmetic)
// With the case wanted as well, only the rules whose letters have none apply: 2 to 5.
template <bool with_case>
uint64_t letter_leads(const uint8_t* bytes, const Word& text) {
  constexpr auto r = [](auto... bits) { return static_cast<char>((0 | ... | (1 << bits))); };
  const NibbleTables asks = {
      twice(_mm_setr_epi8(r(1), r(1), 0, r(1, 6, 7), r(0, 3), r(0, 2), r(0, 2), r(0, 2), r(0, 2), r(0, 2),
                          r(0, 1, 4), r(2), r(2), r(5), 0, 0)),
      twice(_mm_setr_epi8(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, with_case ? 0 : r(0, 6, 7),
                          with_case ? 0 : r(1), r(2, 3, 4, 5), 0))};
  const NibbleTables grants = {
      twice(_mm_setr_epi8(r(0, 1, 2, 4, 5, 6, 7), r(0, 1, 2, 4, 5, 6, 7), r(0, 1, 2, 4, 5, 6, 7),
                          r(0, 1, 2, 4, 5, 6, 7), r(0, 1, 2, 4, 5, 6, 7), r(0, 1, 2, 4, 5, 6, 7),
                          r(0, 1, 2, 4, 5, 6, 7), r(0, 1, 2, 4, 5, 6), r(0, 1, 2, 3, 4, 5, 6, 7),
                          r(0, 1, 2, 3, 4, 5, 6, 7), r(0, 1, 2, 3, 4, 5, 6, 7), r(0, 1, 2, 3, 4, 5, 6, 7),
                          r(0, 1, 2, 3, 4, 5, 6, 7), r(0, 1, 2, 3, 4, 5, 6, 7), r(0, 1, 2, 3, 4, 6, 7),
                          r(0, 1, 2, 3, 4, 6, 7))),
      twice(_mm_setr_epi8(0, 0, 0, 0, 0, 0, 0, 0, r(0, 1, 2, 5, 6), r(0, 1, 2, 5, 7), r(0, 1, 2, 6),
                          r(0, 1, 2, 3, 4, 7), 0, 0, 0, 0))};
  const Word asked = text.map(asks);
  const Word granted = Word::load(bytes + 1).map(grants);
  const auto none = [](__m256i a, __m256i b) {
    return _mm256_cmpeq_epi8(_mm256_and_si256(a, b), _mm256_setzero_si256());
  };
  return ~Word{none(asked.low, granted.low), none(asked.high, granted.high)}.template mask<7>();
}

// What the next word must know of the one before it: 0 or 1 each, but for the bytes that are owed.
struct Before {
  uint64_t owed = 0;  // continuation bytes that its last character still needs, as the lowest bits
  uint64_t letter = 0, number = 0, space = 0, mark = 0, upper = 0, lower = 0;
};

// Gives each byte of a character the bit of its first byte.
uint64_t spread(uint64_t first_bytes, uint64_t before, uint64_t continuation) {
  uint64_t all = first_bytes | (before & continuation);
  all |= all << 1 & continuation;
  all |= all << 1 & continuation;
  return all | (all << 1 & continuation);
}

// The class bits of the characters of a word, at their first bytes; one mask per unicode::ClassBit.
template <bool with_case>
struct Planes {
  static constexpr uint32_t kCount = with_case ? 6 : 3;  // without case: letter, number, space
  uint64_t masks[kCount] = {};

  void add(uint64_t classes, uint32_t bit) {
    for (uint32_t k = 0; k < kCount; ++k) masks[k] |= (classes >> k & 1) << bit;
  }
};

// The bytes equal to value.
uint64_t equal(const Word& text, uint8_t value) {
  const __m256i wanted = _mm256_set1_epi8(static_cast<char>(value));
  return text.map([=](__m256i v) { return _mm256_cmpeq_epi8(v, wanted); }).template mask<7>();
}

// Classifies at once all characters of a word that share all bytes but the last, and so one row of the
// tables: the last byte selects a bit of the row, for 64 of them by three shuffles.
class RowLookup {
 public:
  explicit RowLookup(const Word& last_bytes) {
    const __m256i three_bits = _mm256_set1_epi8(7);
    const __m256i powers = twice(_mm_setr_epi8(1, 2, 4, 8, 16, 32, 64, static_cast<char>(128), 1, 2, 4, 8, 16,
                                               32, 64, static_cast<char>(128)));
    byte_ = last_bytes.map([=](__m256i v) { return _mm256_and_si256(_mm256_srli_epi16(v, 3), three_bits); });
    bit_ = last_bytes.map(
        [=](__m256i v) { return _mm256_shuffle_epi8(powers, _mm256_and_si256(v, three_bits)); });
  }

  // The last bytes that select a set bit of the row.
  uint64_t selected(uint64_t row) const {
    const __m256i table = _mm256_set1_epi64x(static_cast<int64_t>(row));
    const auto part = [=](__m256i byte, __m256i bit) {
      const __m256i hit = _mm256_and_si256(_mm256_shuffle_epi8(table, byte), bit);
      return static_cast<uint32_t>(_mm256_movemask_epi8(_mm256_cmpeq_epi8(hit, bit)));
    };
    return part(byte_.low, bit_.low) | static_cast<uint64_t>(part(byte_.high, bit_.high)) << 32;
  }

 private:
  Word byte_, bit_;
};

// Does the rows of most characters of `length` bytes among those that start at `rest`; returns what is left
// to do one by one.
template <uint32_t length, bool with_case>
uint64_t add_rows(const uint8_t* bytes, const Word& text, uint64_t rest, bool* valid,
                  Planes<with_case>* planes) {
  constexpr uint32_t kMinCharacters = 4;  // fewer are quicker one by one
  constexpr uint32_t kMaxRows = 6;
  if (_mm_popcnt_u64(rest) < kMinCharacters) return rest;
  const RowLookup lookup(Word::load(bytes + length - 1));
  const Word second_bytes = Word::load(bytes + 1);
  for (uint32_t i = 0; i < kMaxRows && rest != 0; ++i) {
    const uint8_t* c = bytes + _tzcnt_u64(rest);
    uint64_t members = rest & equal(text, c[0]);
    uint32_t row = c[0] & 0x1Fu;
    if constexpr (length == 3) {
      members &= equal(second_bytes, c[1]);
      row = (c[0] & 0x0Fu) << 6 | (c[1] & 0x3Fu);
    }
    *valid &= length == 2 ? row >= 0x80 / 64 : row >= 0x800 / 64 && row / 32 != 0xD800 / 0x800;
    const uint64_t* row_planes = unicode::kRows[unicode::kRowOf64[row]];
    for (uint32_t k = 0; k < Planes<with_case>::kCount; ++k) {
      if (row_planes[k] != 0) planes->masks[k] |= members & lookup.selected(row_planes[k]);
    }
    rest &= ~members;
  }
  return rest;
}

template <bool with_case>
bool add_multibyte_classes(const uint8_t* bytes, const Word& text, uint64_t high, const Before& before,
                           uint64_t* owed, ClassMasks* m) {
  const uint64_t lead = text.at_least(0xC0);
  const uint64_t lead_of_three = text.at_least(0xE0);
  const uint64_t lead_of_four = text.at_least(0xF0);
  const uint64_t continuation = high & ~lead;
  const uint64_t expected = lead << 1 | lead_of_three << 2 | lead_of_four << 3 | before.owed;
  if (expected != continuation) return false;
  *owed = lead >> 63 | lead_of_three >> 62 | lead_of_four >> 61;
  m->continuation = continuation;
  Planes<with_case> planes;
  bool valid = true;
  uint64_t rest = lead & ~letter_leads<with_case>(bytes, text);
  planes.masks[0] = lead & ~rest;
  if (rest != 0) {
    const uint64_t two = add_rows<2, with_case>(bytes, text, rest & ~lead_of_three, &valid, &planes);
    const uint64_t three =
        add_rows<3, with_case>(bytes, text, rest & lead_of_three & ~lead_of_four, &valid, &planes);
    rest = two | three | (rest & lead_of_four);
  }
  for (; rest != 0; rest &= rest - 1) {
    const uint32_t bit = static_cast<uint32_t>(_tzcnt_u64(rest));
    const uint8_t* c = bytes + bit;
    uint32_t code_point;
    if (c[0] < 0xE0) {
      code_point = (c[0] & 0x1Fu) << 6 | (c[1] & 0x3Fu);
      valid &= code_point >= 0x80;
    } else if (c[0] < 0xF0) {
      code_point = (c[0] & 0x0Fu) << 12 | (c[1] & 0x3Fu) << 6 | (c[2] & 0x3Fu);
      valid &= code_point >= 0x800 && code_point >> 11 != 0xD800 >> 11;
    } else {
      code_point = (c[0] & 0x0Fu) << 18 | (c[1] & 0x3Fu) << 12 | (c[2] & 0x3Fu) << 6 | (c[3] & 0x3Fu);
      valid &= code_point >= 0x10000 && code_point <= unicode::kMaxCodePoint;
      if (!valid) return false;
    }
    planes.add(unicode::class_of(code_point), bit);
  }
  if (!valid) return false;
  m->letter |= spread(planes.masks[0], before.letter, continuation);
  m->number |= spread(planes.masks[1], before.number, continuation);
  m->space |= spread(planes.masks[2], before.space, continuation);
  if constexpr (with_case) {
    m->mark |= spread(planes.masks[3], before.mark, continuation);
    m->upper |= spread(planes.masks[4], before.upper, continuation);
    m->lower |= spread(planes.masks[5], before.lower, continuation);
  }
  return true;
}

// Classifies 64 bytes (kReadAhead more must be readable). False if a byte of them is not part of well-formed
// UTF-8, or finishes no character of the word before that it should finish.
template <bool with_case>
bool classify(const uint8_t* bytes, Before* before, ClassMasks* m) {
  const Word text = Word::load(bytes);
  const Word classes = ascii_classes(text);
  const uint64_t high = text.mask<7>();
  m->letter = classes.mask<kLetterAToO>() | classes.mask<kLetterPToZ>();
  m->number = classes.mask<kDigit>();
  m->blank = classes.mask<kBlank>();
  m->space = classes.mask<kControlSpace>() | m->blank;
  m->apostrophe = classes.mask<kApostrophe>();
  m->line_end = classes.mask<kLineEnd>();
  m->continuation = 0;
  if constexpr (with_case) {
    m->mark = 0;
    m->lower = m->letter & text.mask<5>();
    m->upper = m->letter & ~m->lower;
    m->slash = classes.mask<kSlash>();
  }
  uint64_t owed = 0;
  if ((high | before->owed) != 0 && !add_multibyte_classes<with_case>(bytes, text, high, *before, &owed, m)) {
    return false;
  }
  m->other = ~(m->letter | m->number | m->space);
  before->owed = owed;
  before->letter = m->letter >> 63;
  before->number = m->number >> 63;
  before->space = m->space >> 63;
  if constexpr (with_case) {
    m->other &= ~m->mark;
    before->mark = m->mark >> 63;
    before->upper = m->upper >> 63;
    before->lower = m->lower >> 63;
  }
  return true;
}

template <bool with_case>
void keep_bits(uint64_t bits, ClassMasks* m) {
  for (uint64_t* mask : {&m->letter, &m->number, &m->space, &m->other, &m->line_end, &m->blank,
                         &m->apostrophe, &m->continuation}) {
    *mask &= bits;
  }
  if constexpr (with_case) {
    for (uint64_t* mask : {&m->mark, &m->upper, &m->lower, &m->slash}) *mask &= bits;
  }
}

// Bytes at the start of a stretch of text of which the classes are known, whole characters.
template <bool with_case>
size_t classify_words(const uint8_t* text, size_t size, size_t num_words, ClassMasks* masks) {
  Before before;
  size_t word = 0;
  for (; word < num_words; ++word) {
    const size_t position = word * kWordBytes;
    if (size - position >= kWordBytes + kReadAhead) [[likely]] {
      if (!classify<with_case>(text + position, &before, &masks[word])) break;
    } else {
      PaddedWord padded{};
      std::memcpy(padded.bytes, text + position, size - position);
      if (!classify<with_case>(padded.bytes, &before, &masks[word])) break;
    }
  }
  size_t known = word * kWordBytes < size ? word * kWordBytes : size;
  if (word != 0 && before.owed != 0) {
    // The last character goes on in a word that is not known.
    do --known;
    while (masks[word - 1].continuation >> known % kWordBytes & 1);
  }
  if (word != 0 && known < word * kWordBytes) {
    const size_t last = word - 1;
    keep_bits<with_case>(~uint64_t{0} >> (word * kWordBytes - known), &masks[last]);
  }
  return known;
}

// Where the whitespace that touches the end of the known text starts, `known` if there is none.
size_t final_space(const ClassMasks* masks, size_t known) {
  while (known != 0) {
    const size_t word = (known - 1) / kWordBytes;
    const uint32_t unused = static_cast<uint32_t>((word + 1) * kWordBytes - known);
    const uint64_t not_space = ~masks[word].space << unused;
    const size_t length = static_cast<size_t>(_lzcnt_u64(not_space));
    if (length < kWordBytes - unused) return known - length;
    known = word * kWordBytes;
  }
  return 0;
}

// Writes base + the positions of the bits; returns their number. Up to 7 more are overwritten.
inline size_t write_ends(uint64_t bits, uint64_t base, uint64_t* ends) {
  const size_t count = static_cast<size_t>(_mm_popcnt_u64(bits));
  for (size_t i = 0; i < count; i += 8) {
    for (size_t k = 0; k < 8; ++k) {
      ends[i + k] = base + _tzcnt_u64(bits);
      bits = _blsr_u64(bits);
    }
  }
  return count;
}

struct Progress {
  size_t num_ends;
  bool undecided;  // the next pre-token is one that masks do not decide
};

// The ends that masks decide in the first num_words words of text, which start a pre-token. Fewer than all of
// them: what depends on text not looked at is left out.
template <Rules rules>
Progress scan_words(const uint8_t* text, size_t size, size_t num_words, uint64_t base, uint64_t* ends,
                    size_t capacity) {
  ClassMasks masks[kMaxWords + 1];
  uint64_t starts[kMaxWords];
  const size_t known = classify_words<rules.o200k>(text, size, num_words, masks);
  if (known == 0) return {0, false};
  num_words = (known + kWordBytes - 1) / kWordBytes;
  masks[num_words].space = 0;
  BoundaryAlgebra<rules> algebra(masks, num_words, starts, text, size);
  size_t limit = final_space(masks, known);  // the last position at which a boundary is to be believed
  uint64_t undecided = 0;
  size_t word = 0;
  while (word < num_words && undecided == 0) {
    undecided = algebra.next();
    ++word;
  }
  if (undecided != 0) {
    const size_t position = (word - 1) * kWordBytes + static_cast<size_t>(_tzcnt_u64(undecided)) - 1;
    limit = position < limit ? position : limit;
  }
  starts[0] &= ~uint64_t{1};
  size_t count = 0;
  for (size_t w = 0; w < word && w * kWordBytes <= limit; ++w) {
    uint64_t bits = starts[w];
    if (limit - w * kWordBytes < kWordBytes - 1) bits &= (uint64_t{2} << (limit - w * kWordBytes)) - 1;
    const uint64_t position = base + w * kWordBytes;
    if (capacity - count >= kWordBytes) [[likely]] {
      count += write_ends(bits, position, ends + count);
      continue;
    }
    for (; bits != 0; bits = _blsr_u64(bits)) {
      if (count == capacity) return {count, false};
      ends[count++] = position + _tzcnt_u64(bits);
    }
  }
  return {count, undecided != 0};
}

template <Pattern pattern>
size_t scan_pattern(const uint8_t* text, size_t size, size_t begin, uint64_t* ends, size_t capacity) {
  const Cut cut = portable_cut(pattern);
  size_t count = 0;
  size_t most_words = kMaxWords;  // fewer after a place that masks do not decide, since the rest was in vain
  while (count < capacity && begin < size) {
    const size_t left = size - begin;
    if (left >= kMinWideBytes) {
      // A word of text holds some fifteen pre-tokens: do not classify much more than there is room for.
      size_t num_words = (capacity - count) / 8 + 1;
      num_words = num_words < most_words ? num_words : most_words;
      const size_t words_left = (left + kWordBytes - 1) / kWordBytes;
      num_words = num_words < words_left ? num_words : words_left;
      const Progress progress =
          scan_words<rules_of(pattern)>(text + begin, left, num_words, begin, ends + count, capacity - count);
      if (progress.num_ends != 0) {
        count += progress.num_ends;
        begin = ends[count - 1];
        most_words = progress.undecided ? 2 : most_words * 2 < kMaxWords ? most_words * 2 : kMaxWords;
        if (count == capacity || begin == size) break;
        if (!progress.undecided && size - begin >= kWordBytes) continue;
        begin = cut(text, size, begin);
        ends[count++] = begin;
        continue;
      }
    }
    // Malformed text, a pre-token longer than the masks, or the end of the text.
    for (const size_t until = begin + kWordBytes; count < capacity && begin < until && begin < size;) {
      begin = cut(text, size, begin);
      ends[count++] = begin;
    }
  }
  return count;
}

}  // namespace

const bool kAvx2Compiled = true;

size_t scan_avx2(Pattern pattern, const uint8_t* text, size_t size, size_t begin, uint64_t* ends,
                 size_t capacity) {
  switch (pattern) {
    case Pattern::kGpt2:
      return scan_pattern<Pattern::kGpt2>(text, size, begin, ends, capacity);
    case Pattern::kCl100k:
      return scan_pattern<Pattern::kCl100k>(text, size, begin, ends, capacity);
    case Pattern::kO200k:
      return scan_pattern<Pattern::kO200k>(text, size, begin, ends, capacity);
    case Pattern::kQwen2:
      return scan_pattern<Pattern::kQwen2>(text, size, begin, ends, capacity);
    case Pattern::kNanochat:
      return scan_pattern<Pattern::kNanochat>(text, size, begin, ends, capacity);
    case Pattern::kCl100k2023:
    case Pattern::kLlama3:
      break;
  }
  return scan_pattern<Pattern::kLlama3>(text, size, begin, ends, capacity);
}

}  // namespace tokcore

#else  // another processor, or a compiler that was not asked for these instructions

namespace tokcore {

const bool kAvx2Compiled = false;

size_t scan_avx2(Pattern pattern, const uint8_t* text, size_t size, size_t begin, uint64_t* ends,
                 size_t capacity) {
  return scan_portable(pattern, text, size, begin, ends, capacity);
}

}  // namespace tokcore

#endif
