// DESCRIPTION
// What the kernel, compiled with -fsanitize-coverage=trace-pc, tells of where it has been.
#pragma once

namespace tokcore::fuzz {

// Whether a place was reached for the first time since this was last asked.
bool reached_new_place();

}  // namespace tokcore::fuzz
