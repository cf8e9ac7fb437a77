#include "bindings.h"

namespace tokcore {

void bind_encoder(nanobind::module_&) {}

}  // namespace tokcore
