// Small documents of few tokens: what begins alike is followed by tokens whose probabilities add up to 1,
// whatever was learned, and the order of what was learned changes no bit.
#include <cmath>

#include "input.h"
#include "predict/ngram.h"

namespace {

using namespace tokcore;
using namespace tokcore::fuzz;

using Documents = std::vector<std::vector<int32_t>>;

NgramPrediction predict(const Documents& learned, const Documents& predicted, const NgramOptions& options) {
  std::vector<int32_t> ids;
  std::vector<int64_t> offsets{0};
  for (const Documents* side : {&learned, &predicted}) {
    for (const auto& document : *side) {
      ids.insert(ids.end(), document.begin(), document.end());
      offsets.push_back(static_cast<int64_t>(ids.size()));
    }
  }
  ids.shrink_to_fit();
  return predict_documents({ids.data(), offsets.data(), offsets.size() - 1, learned.size()}, options);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Input input(data, size);
  const size_t num_tokens = 1 + input.below(12);
  std::vector<int32_t> lengths(num_tokens);
  for (int32_t& length : lengths) length = static_cast<int32_t>(input.below(5));
  NgramOptions options{num_tokens, lengths.data(), 1 + input.below(kMaxNgramOrder), input.below(32)};
  std::vector<int32_t> begin(input.below(10));
  for (int32_t& token : begin) token = static_cast<int32_t>(input.below(num_tokens));
  Documents learned;
  while (input.left() > 0) {
    learned.emplace_back(input.below(40));
    for (int32_t& token : learned.back()) token = static_cast<int32_t>(input.below(num_tokens));
  }
  Documents predicted{begin};
  for (size_t token = 0; token < num_tokens; ++token) {
    predicted.push_back(begin);
    predicted.back().push_back(static_cast<int32_t>(token));
  }
  const NgramPrediction prediction = predict(learned, predicted, options);
  double sum = 0;
  for (size_t token = 0; token < num_tokens; ++token)
    sum += std::exp2(prediction.bits[0] - prediction.bits[token + 1]);
  expect(std::abs(sum - 1) < 1e-9, "the probabilities of all tokens add up to 1");
  std::reverse(learned.begin(), learned.end());
  const NgramPrediction again = predict(learned, predicted, options);
  expect(again.bits == prediction.bits && again.context_bytes == prediction.context_bytes,
         "the order of documents changes nothing");
  return 0;
}
