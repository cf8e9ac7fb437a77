// DESCRIPTION
// UnigramParts encodes the parts of texts by a Unigram model, one batch after the other. Parts that the cache
// does not know are encoded side by side.
//
// As SentencePiece adds up scores over a text, the cut of a part may depend on the sum before it. Mostly it
// does not, and a bound of the sum is enough to know that: then nothing is added up. Where it may, the sum is
// made exact, from the tokens since it was, and if that is not enough, the part is encoded after that sum.
// Not thread-safe.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "sentencepiece/part_cache.h"
#include "sentencepiece/token_writer.h"
#include "unigram/unigram_model.h"

namespace tokcore {

class UnigramParts {
 public:
  struct Rules {
    bool carries_sum;      // over a text; otherwise the scores of each part are added up by themselves
    bool remembers;        // otherwise no part is looked up
    bool separates_words;  // unknown text does not go on into the next word
  };

  UnigramParts(const UnigramModel& model, Rules rules, PartCache* cache, TokenWriter* writer)
      : model_(model), rules_(rules), cache_(*cache), writer_(*writer) {}

  // A batch: find() all parts, put() them in order, as many at once as are of one text, then remember_new().
  void find(Part* parts, size_t num_parts);
  // A text begins, after the writer's start().
  void start() {
    sum_ = 0;
    num_summed_ = 0;
    bound_ = 0;
  }
  void put(Part* parts, size_t num_parts);
  void remember_new();

  // Parts that are not known yet.
  void remember(Part* parts, size_t num_parts);

 private:
  // In a cache: the numbers of a part that hold up to some sum are preceded by these two.
  static constexpr int32_t kHasLimit = -1;
  static constexpr size_t kLimitNumbers = 2;

  struct NewPart {
    Part* part;
    size_t equal;  // the first of the new parts that is equal, which alone is encoded
    size_t at;     // of its numbers, which have room for kLimitNumbers before them
    UnigramModel::Measured measured;
  };

  // Encodes parts one after the other, each after the sum of all before it.
  void put_after_sum(const Part* parts, size_t num_parts);
  size_t find_equal(const Part& part);
  void encode_new();
  bool put_if_certain(const Part& part, const uint32_t* numbers, size_t count, float limit);
  // Encodes a part after the sum before it, which is exact.
  void put_exact(Part& part);
  // Adds up the tokens since the sum was exact.
  void make_exact();
  float room(size_t size) const { return UnigramModel::kMaxSum - 8 - model_.reach(size); }
  // How many more tokens surely leave the absolute sum within a limit; -1 if it may exceed it already.
  ptrdiff_t count_tokens_within(float limit) const {
    return static_cast<ptrdiff_t>(std::floor(std::max(-1.0, (double{limit} - bound_) / model_.step())));
  }

  const UnigramModel& model_;
  Rules rules_;
  PartCache& cache_;
  TokenWriter& writer_;
  UnigramModel::Scratch scratch_;
  UnigramModel::Scratch scratch_of_one_;
  // Of the batch in hand. The next one to put: a new part, or without a cache any.
  std::vector<NewPart> new_parts_;
  size_t next_ = 0;
  // By hash: the last short new part, and its batch, as entries of earlier batches are not cleared.
  struct Place {
    uint64_t batch;
    uint32_t index;  // in new_parts_
  };
  static constexpr size_t kPlaces = 512;
  Place places_[kPlaces] = {};
  uint64_t batch_ = 0;
  float least_room_ = 0;  // room() of the longest part
  std::vector<uint32_t> numbers_;
  std::vector<uint32_t> numbers_of_one_;

  // Of the text in hand: the sum of the first tokens, how many these are, and what the absolute sum of all
  // does not exceed.
  float sum_ = 0;
  size_t num_summed_ = 0;
  double bound_ = 0;
};

}  // namespace tokcore
