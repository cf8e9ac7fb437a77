#include "bindings.h"

NB_MODULE(_native, module) {
  // A tokenizer that lives as long as the interpreter is not a leak.
  nanobind::set_leak_warnings(false);
  module.doc() = "The native kernel of tokcore. Use it through tokcore.kernel.";
  tokcore::bind_normalizer(module);
  tokcore::bind_scanner(module);
  tokcore::bind_automaton(module);
  tokcore::bind_counter(module);
  tokcore::bind_learner(module);
  tokcore::bind_draws(module);
  tokcore::bind_encoder(module);
  tokcore::bind_floor_round(module);
  tokcore::bind_highway_hash(module);
  tokcore::bind_id_counter(module);
  tokcore::bind_id_parts(module);
  tokcore::bind_id_replacer(module);
  tokcore::bind_json_lines(module);
  tokcore::bind_mask_finder(module);
  tokcore::bind_muhash(module);
  tokcore::bind_ngram(module);
  tokcore::bind_pieces(module);
  tokcore::bind_rank_merges(module);
  tokcore::bind_sentencepiece(module);
  tokcore::bind_string_finder(module);
  tokcore::bind_token_table(module);
  tokcore::bind_varints(module);
  tokcore::bind_vocabulary_json(module);
}
