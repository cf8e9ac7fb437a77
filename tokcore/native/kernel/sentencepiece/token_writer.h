// DESCRIPTION
// TokenWriter appends the tokens of a text's parts, as numbers of PieceVocabulary, and makes them ids in the
// end. Unknown text next to unknown text is one token, across parts, too. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "encode/id_buffer.h"
#include "sentencepiece/piece_vocabulary.h"

namespace tokcore {

class TokenWriter {
 public:
  static constexpr size_t kBlock = 4;  // numbers that are read together

  explicit TokenWriter(const PieceVocabulary& vocabulary)
      : vocabulary_(vocabulary), unknown_(vocabulary.has_bytes() ? kNever : vocabulary.unknown()) {}

  void start(IdBuffer* ids) {
    ids_ = ids;
    first_ = ids->size();
    was_unknown_ = false;
  }

  // For parts of that many bytes.
  void reserve(size_t num_bytes) { ids_->reserve_more(num_bytes + kBlock); }

  // Whether put() of a part that begins so would leave out its first token.
  bool joins(uint32_t first_number) const { return was_unknown_ && first_number == unknown_; }

  // numbers: may be read kBlock at a time. There must be room.
  void put(const uint32_t* numbers, size_t count) { Run(this).put(numbers, count); }

  // Puts many parts, with the writer's state in local variables: a compiler must assume that each store of a
  // token changes the writer's members. Nothing else may use the writer before save() or the end of the run.
  // After something else has used it, call load().
  class Run {
   public:
    explicit Run(TokenWriter* writer) : writer_(*writer), unknown_(writer->unknown_) { load(); }
    ~Run() { save(); }
    Run(const Run&) = delete;
    Run& operator=(const Run&) = delete;

    void load() {
      end_ = writer_.ids_->end();
      was_unknown_ = writer_.was_unknown_;
    }
    void save() const {
      writer_.ids_->set_end(end_);
      writer_.was_unknown_ = was_unknown_;
    }
    const int32_t* end() const { return end_; }

    // What comes next is not next to what was last.
    void separate() { was_unknown_ = false; }
    bool joins(uint32_t first_number) const { return was_unknown_ && first_number == unknown_; }
    void put(const uint32_t* numbers, size_t count) {
      if (count == 0) return;
      if (joins(numbers[0])) [[unlikely]] {
        was_unknown_ = numbers[count - 1] == unknown_;
        std::memmove(end_, numbers + 1, (count - 1) * sizeof(uint32_t));
        end_ += count - 1;
        return;
      }
      std::memcpy(end_, numbers, kBlock * sizeof(uint32_t));
      if (count > kBlock) std::memcpy(end_ + kBlock, numbers + kBlock, (count - kBlock) * sizeof(uint32_t));
      was_unknown_ = numbers[count - 1] == unknown_;
      end_ += count;
    }

   private:
    TokenWriter& writer_;
    uint32_t unknown_;
    int32_t* end_;
    bool was_unknown_;
  };

  // The numbers since start().
  size_t count() const { return ids_->size() - first_; }
  uint32_t number(size_t i) const { return static_cast<uint32_t>(ids_->data()[first_ + i]); }
  void forget() { ids_->set_end(ids_->data() + first_); }

  void finish() const {
    const int32_t* const external = vocabulary_.ids();
    int32_t* const end = ids_->end();
    for (int32_t* id = ids_->data() + first_; id != end; ++id) *id = external[*id];
  }

 private:
  static constexpr uint32_t kNever = UINT32_MAX;

  const PieceVocabulary& vocabulary_;
  uint32_t unknown_;  // kNever if bytes spell unknown text
  IdBuffer* ids_ = nullptr;
  size_t first_ = 0;
  bool was_unknown_ = false;
};

}  // namespace tokcore
