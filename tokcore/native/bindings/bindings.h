// DESCRIPTION
// Each function adds the classes and functions of one component to the Python module. All of them check their
// arguments, release the GIL for the work, and turn a status into a Python exception.
#pragma once

#include <nanobind/nanobind.h>

#include <string_view>

#include "scan/scanner.h"

namespace tokcore {

// The implementation with that name. Throws std::invalid_argument (ValueError) if this processor cannot run
// it.
Implementation checked_implementation(std::string_view name);

// The scanner for two names from Python. Throws std::invalid_argument (ValueError) for an unknown pattern or
// an implementation that this processor cannot run.
Scanner scanner_from_names(std::string_view pattern, std::string_view implementation);

void bind_normalizer(nanobind::module_& module);
void bind_scanner(nanobind::module_& module);
void bind_automaton(nanobind::module_& module);
void bind_counter(nanobind::module_& module);
void bind_learner(nanobind::module_& module);
void bind_draws(nanobind::module_& module);
void bind_encoder(nanobind::module_& module);
void bind_floor_round(nanobind::module_& module);
void bind_highway_hash(nanobind::module_& module);
void bind_id_counter(nanobind::module_& module);
void bind_id_parts(nanobind::module_& module);
void bind_id_replacer(nanobind::module_& module);
void bind_json_lines(nanobind::module_& module);
void bind_mask_finder(nanobind::module_& module);
void bind_muhash(nanobind::module_& module);
void bind_ngram(nanobind::module_& module);
void bind_pieces(nanobind::module_& module);
void bind_rank_merges(nanobind::module_& module);
void bind_sentencepiece(nanobind::module_& module);
void bind_string_finder(nanobind::module_& module);
void bind_token_table(nanobind::module_& module);
void bind_varints(nanobind::module_& module);
void bind_vocabulary_json(nanobind::module_& module);

}  // namespace tokcore
