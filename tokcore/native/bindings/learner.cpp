#include "bindings.h"

namespace tokcore {

void bind_learner(nanobind::module_&) {}

}  // namespace tokcore
