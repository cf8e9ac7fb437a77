// DESCRIPTION
// StepNormalizer prepares a text as a tokenizer.json does that was made from a SentencePiece model: it takes
// the steps of its normalizers and pre-tokenizers one after another, each over the whole text. Before them, a
// byte outside of well-formed UTF-8 becomes U+FFFD, or is left out where kAsciiWords is one of the steps.
// Each step is linear in the length of the text. Thread-safe once built.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "sentencepiece/charsmap.h"
#include "sentencepiece/piece_normalizer.h"

namespace tokcore {

enum class StepKind : uint8_t {
  kPrepend,       // its text, before a text that is not empty
  kReplace,       // its pattern by its text
  kReplaceSpans,  // two spaces or more by its text
  kStripLeft,     // white space
  kStripRight,
  kCharsmap,        // each grapheme of less than six bytes, or else each character, by a table
  kMetaspace,       // spaces become U+2581
  kMetaspaceFirst,  // and one is put before a text that does not begin with it
  kWords,           // the same for each of the parts between white space, which is left out
  kAsciiWords,      // U+2581 before each of the parts between it and ASCII's white space, which are left out
  kMetaspaceStart   // as kMetaspaceFirst, if the first character is what the first one of the raw text became
};

class StepNormalizer {
 public:
  // pattern: of kReplace, not empty. text: of kPrepend and the replacing kinds; of kCharsmap the table.
  // False for an unknown kind, and for a table that is damaged.
  bool add(uint8_t kind, std::string pattern, std::string text);

  bool empty() const { return steps_.empty(); }

  // Appends the normalized text. Throws std::bad_alloc.
  void normalize(const uint8_t* text, size_t size, PaddedBytes* out) const;

 private:
  struct Step {
    StepKind kind;
    std::string pattern;
    std::string text;
    Charsmap charsmap;
  };

  // lead: how many bytes at the start of the text stand for the first character of the raw text, as
  // tokenizers aligns them. Becomes that of out.
  static void apply(const Step& step, const std::string& text, size_t* lead, std::string* out);
  static void apply_charsmap(const Charsmap& charsmap, const std::string& text, size_t* lead,
                             std::string* out);
  static void apply_words(const std::string& text, std::string* out);
  static void apply_ascii_words(const std::string& text, std::string* out);

  std::vector<Step> steps_;
  bool drops_ill_formed_ = false;
};

}  // namespace tokcore
