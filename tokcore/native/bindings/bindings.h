// DESCRIPTION
// One function per component; each adds its classes and functions to the Python module.
#pragma once

#include <nanobind/nanobind.h>

#include <string_view>

#include "scan/scanner.h"

namespace tokcore {

// The implementation of that name. Throws std::invalid_argument (ValueError) for one that this processor
// cannot run.
Implementation checked_implementation(std::string_view name);

// The scanner that Python asks for by names. Throws std::invalid_argument (ValueError) for an unknown pattern
// or an implementation that this processor cannot run.
Scanner scanner_from_names(std::string_view pattern, std::string_view implementation);

void bind_scanner(nanobind::module_& module);
void bind_counter(nanobind::module_& module);
void bind_learner(nanobind::module_& module);
void bind_encoder(nanobind::module_& module);
void bind_id_counter(nanobind::module_& module);
void bind_json_lines(nanobind::module_& module);
void bind_mask_finder(nanobind::module_& module);
void bind_rank_merges(nanobind::module_& module);

}  // namespace tokcore
