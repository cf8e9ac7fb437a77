// DESCRIPTION
// One function per component; each adds its classes and functions to the Python module.
#pragma once

#include <nanobind/nanobind.h>

namespace tokcore {

void bind_scanner(nanobind::module_& module);
void bind_counter(nanobind::module_& module);
void bind_learner(nanobind::module_& module);
void bind_encoder(nanobind::module_& module);

}  // namespace tokcore
