// DESCRIPTION
// Scanner cuts UTF-8 text into pre-tokens: the matches of a named split pattern. Every byte of the text
// belongs to exactly one pre-token. A byte outside of every well-formed UTF-8 sequence is a character of its
// own, of the class "other" (Python: surrogateescape). Cost: linear in the length of the text. Allocates
// nothing. Thread-safe. The next cut after position p depends only on the text from p on, so a scan can
// resume at any returned end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace tokcore {

enum class Pattern : uint8_t {
  kGpt2,
  kCl100k,
  kCl100k2023,
  kO200k,
  kLlama3,
  kQwen2,
  kNanochat,
  kTekken,
  kDeepseek,  // the splits of DeepSeek V3, one after the other
  kBert,
  kMetaspace
};

// The compiled forms of the kernel. Tests check that their results are equal.
enum class Implementation : uint8_t { kPortable, kAvx2, kAvx512 };

// The forms that this processor can run, widest vectors first.
std::vector<Implementation> implementations();
std::string_view name_of(Implementation implementation);  // "avx512", "avx2", "portable"

// The pattern with that name ("cl100k-2023"), or nothing if there is none.
std::optional<Pattern> pattern_from_name(std::string_view name);

class Scanner {
 public:
  // implementation must be one that this processor can run.
  Scanner(Pattern pattern, Implementation implementation)
      : pattern_(pattern), implementation_(implementation) {}

  // Writes the ends (exclusive, relative to text) of the pre-tokens from `begin` on, in order, to
  // ends[0..capacity), and returns their number: 0 only if begin == size or capacity == 0. To go on, call
  // again with the last end as begin. `begin` must be 0 or an end returned for the same text.
  size_t scan(const uint8_t* text, size_t size, size_t begin, uint64_t* ends, size_t capacity) const;

  Pattern pattern() const { return pattern_; }
  Implementation implementation() const { return implementation_; }

 private:
  Pattern pattern_;
  Implementation implementation_;
};

}  // namespace tokcore
