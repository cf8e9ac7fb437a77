#include "bindings.h"

namespace tokcore {

void bind_scanner(nanobind::module_&) {}

}  // namespace tokcore
