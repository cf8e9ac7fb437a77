#include "bindings.h"

namespace tokcore {

void bind_counter(nanobind::module_&) {}

}  // namespace tokcore
