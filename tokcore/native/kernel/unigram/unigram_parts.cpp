#include "unigram/unigram_parts.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace tokcore {
namespace {

void make_room(size_t size, std::vector<uint32_t>* numbers) {
  if (numbers->size() < size + TokenWriter::kBlock) numbers->resize(size + TokenWriter::kBlock);
}

}  // namespace

void UnigramParts::find(Part* parts, size_t num_parts) {
  next_ = 0;
  new_parts_.clear();
  ++batch_;
  if (!rules_.remembers) {
    UnigramModel::clear(scratch_);
    for (size_t i = 0; i < num_parts; ++i) model_.add(parts[i].text, parts[i].size, scratch_);
    model_.find_ends(scratch_);
    return;
  }
  size_t longest = 0;
  for (size_t i = 0; i < num_parts; ++i) {
    longest = std::max(longest, parts[i].size);
    parts[i].known = cache_.find(parts[i]);
    if (parts[i].known.ids == nullptr) new_parts_.push_back({&parts[i], find_equal(parts[i]), 0, {}});
  }
  least_room_ = room(longest);
  encode_new();
}

void UnigramParts::put(Part* parts, size_t num_parts) {
  if (!rules_.remembers) {
    put_after_sum(parts, num_parts);
    return;
  }
  TokenWriter::Run run(&writer_);
  const int32_t* counted = run.end();  // bound_ counts the tokens before it
  const float least_room = least_room_;
  ptrdiff_t most_tokens = count_tokens_within(least_room);
  const NewPart* next = new_parts_.data() + next_;
  for (size_t i = 0; i < num_parts; ++i) {
    Part& part = parts[i];
    if (rules_.separates_words && part.begins_word) run.separate();
    float limit = std::numeric_limits<float>::max();
    const auto* numbers = reinterpret_cast<const uint32_t*>(part.known.ids);
    size_t count = part.known.count;
    if (numbers == nullptr) {
      numbers = numbers_.data() + next->at;
      count = next->measured.count;
      limit = next++->measured.limit;
    } else if (part.known.ids[0] == kHasLimit) {
      limit = std::bit_cast<float>(numbers[1]);
      numbers += kLimitNumbers;
      count -= kLimitNumbers;
    }
    const bool is_certain =
        limit >= least_room && run.end() - counted <= most_tokens && !run.joins(numbers[0]);
    if (is_certain || !rules_.carries_sum) [[likely]] {
      run.put(numbers, count);
      continue;
    }
    run.save();
    bound_ += static_cast<double>(run.end() - counted) * model_.step();
    if (!put_if_certain(part, numbers, count, limit)) put_exact(part);
    run.load();
    counted = run.end();
    most_tokens = count_tokens_within(least_room);
  }
  bound_ += static_cast<double>(run.end() - counted) * model_.step();
  next_ = static_cast<size_t>(next - new_parts_.data());
}

void UnigramParts::remember(Part* parts, size_t num_parts) {
  new_parts_.clear();
  for (size_t i = 0; i < num_parts; ++i) new_parts_.push_back({&parts[i], i, 0, {}});
  encode_new();
  remember_new();
}

void UnigramParts::put_after_sum(const Part* parts, size_t num_parts) {
  for (size_t i = 0; i < num_parts; ++i) {
    make_room(parts[i].size, &numbers_);
    const size_t count =
        model_.encode(next_++, parts[i].text, parts[i].size, &sum_, scratch_, numbers_.data());
    writer_.put(numbers_.data(), count);
  }
}

// The index of the first new part of the batch that equals this one; if there is none, the index that it
// gets.
size_t UnigramParts::find_equal(const Part& part) {
  const size_t own = new_parts_.size();
  if (part.kept != Part::Kept::kShort) return own;
  Place& place = places_[part.key.bucket / sizeof(PretokenCache::Bucket) % kPlaces];
  if (place.batch == batch_) {
    const Part& other = *new_parts_[place.index].part;
    if (is_zero(other.key.bytes ^ part.key.bytes) != 0) return place.index;
  }
  place = {batch_, static_cast<uint32_t>(own)};
  return own;
}

void UnigramParts::encode_new() {
  if (new_parts_.empty()) return;
  UnigramModel::clear(scratch_);
  size_t room = 0;
  for (size_t i = 0; i < new_parts_.size(); ++i) {
    NewPart& fresh = new_parts_[i];
    if (fresh.equal != i) continue;
    fresh.part->spell();
    model_.add(fresh.part->text, fresh.part->size, scratch_);
    fresh.at = room + kLimitNumbers;
    room = fresh.at + fresh.part->size;
  }
  make_room(room, &numbers_);
  model_.find_ends(scratch_);
  if (rules_.carries_sum) {
    model_.find_cuts(scratch_);
  } else {
    model_.find_word_cuts(scratch_);
  }
  size_t index = 0;
  for (size_t i = 0; i < new_parts_.size(); ++i) {
    NewPart& fresh = new_parts_[i];
    if (fresh.equal != i) {
      fresh.at = new_parts_[fresh.equal].at;
      fresh.measured = new_parts_[fresh.equal].measured;
      continue;
    }
    uint32_t* const numbers = numbers_.data() + fresh.at;
    fresh.measured = model_.measure(index++, fresh.part->text, fresh.part->size, scratch_, numbers);
  }
}

// After the last part was put, because what is added may replace what was found.
void UnigramParts::remember_new() {
  for (size_t i = 0; i < new_parts_.size(); ++i) {
    const NewPart& fresh = new_parts_[i];
    if (fresh.equal != i) continue;
    uint32_t* const numbers = numbers_.data() + fresh.at;
    const auto [count, limit] = fresh.measured;
    if (!rules_.carries_sum || limit >= room(fresh.part->size)) {
      cache_.remember(*fresh.part, numbers, count);
    } else if (limit >= 0) {
      numbers[-2] = static_cast<uint32_t>(kHasLimit);
      numbers[-1] = std::bit_cast<uint32_t>(limit);
      cache_.remember(*fresh.part, numbers - kLimitNumbers, count + kLimitNumbers);
    }
  }
}

// Puts the cut of a part that holds up to some absolute sum before it, unless the sum may be beyond.
bool UnigramParts::put_if_certain(const Part& part, const uint32_t* numbers, size_t count, float limit) {
  limit = std::min(limit, room(part.size));
  if (!(bound_ <= double{limit}) || writer_.joins(numbers[0])) [[unlikely]] {
    make_exact();
    if (!(bound_ <= double{limit})) return false;
    for (size_t i = 0; i < count; ++i) sum_ += model_.scores()[numbers[i]];
    writer_.put(numbers, count);
    num_summed_ = writer_.count();
    bound_ = std::fabs(double{sum_});
    return true;
  }
  writer_.put(numbers, count);
  bound_ += static_cast<double>(count) * model_.step();
  return true;
}

void UnigramParts::put_exact(Part& part) {
  part.spell();
  UnigramModel::clear(scratch_of_one_);
  model_.add(part.text, part.size, scratch_of_one_);
  model_.find_ends(scratch_of_one_);
  make_room(part.size, &numbers_of_one_);
  const size_t count = model_.encode(0, part.text, part.size, &sum_, scratch_of_one_, numbers_of_one_.data());
  writer_.put(numbers_of_one_.data(), count);
  num_summed_ = writer_.count();
  bound_ = std::fabs(double{sum_});
}

void UnigramParts::make_exact() {
  for (; num_summed_ < writer_.count(); ++num_summed_) sum_ += model_.scores()[writer_.number(num_summed_)];
  bound_ = std::fabs(double{sum_});
}

}  // namespace tokcore
