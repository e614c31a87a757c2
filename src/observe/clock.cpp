#include "observe/clock.h"

#include "base/clock.h"

namespace ddpm::observe {

Clock wall_clock() { return base::unix_seconds; }
Clock steady_clock() { return base::steady_seconds; }

}  // namespace ddpm::observe
