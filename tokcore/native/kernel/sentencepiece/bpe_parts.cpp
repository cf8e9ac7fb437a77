#include "sentencepiece/bpe_parts.h"

namespace tokcore {

void BpeParts::find(Part* parts, size_t num_parts) {
  next_ = 0;
  new_parts_.clear();
  for (size_t i = 0; i < num_parts; ++i) {
    parts[i].known = cache_.find(parts[i]);
    if (parts[i].known.ids == nullptr) new_parts_.push_back(&parts[i]);
  }
  encode_new();
}

bool BpeParts::put(const Part* parts, size_t num_parts) {
  const CharacterBpe::Text* next = new_texts_.data() + next_;
  bool is_done = true;
  TokenWriter::Run run(&writer_);
  for (size_t i = 0; i < num_parts; ++i) {
    const Part& part = parts[i];
    if (separates_words_ && part.begins_word) run.separate();
    if (part.known.ids != nullptr) {
      run.put(reinterpret_cast<const uint32_t*>(part.known.ids), part.known.count);
      continue;
    }
    if (next->count == CharacterBpe::kNeedsText) {
      is_done = false;
    } else {
      run.put(next->numbers, next->count);
    }
    ++next;
  }
  next_ = static_cast<size_t>(next - new_texts_.data());
  return is_done;
}

void BpeParts::put_text(const uint8_t* text, size_t size) {
  writer_.reserve(size);
  if (numbers_of_text_.size() < size + TokenWriter::kBlock)
    numbers_of_text_.resize(size + TokenWriter::kBlock);
  writer_.put(numbers_of_text_.data(), bpe_.encode(text, size, true, scratch_, numbers_of_text_.data()));
}

void BpeParts::remember(Part* parts, size_t num_parts) {
  new_parts_.clear();
  for (size_t i = 0; i < num_parts; ++i) new_parts_.push_back(&parts[i]);
  encode_new();
  remember_new();
}

void BpeParts::encode_new() {
  size_t room = TokenWriter::kBlock;
  for (const Part* part : new_parts_) room += part->size;
  if (numbers_.size() < room) numbers_.resize(room);
  new_texts_.clear();
  uint32_t* numbers = numbers_.data();
  for (Part* part : new_parts_) {
    part->spell();
    new_texts_.push_back({part->text, part->size, numbers, 0});
    numbers += part->size;
  }
  bpe_.encode_all(new_texts_.data(), new_texts_.size(), scratch_);
}

// After the last part was put, because what is added may replace what was found.
void BpeParts::remember_new() {
  for (size_t i = 0; i < new_parts_.size(); ++i) {
    const CharacterBpe::Text& text = new_texts_[i];
    if (text.count != CharacterBpe::kNeedsText) cache_.remember(*new_parts_[i], text.numbers, text.count);
  }
}

}  // namespace tokcore
