// Clocks that are passed in, so that tests choose the time.
#pragma once

#include <functional>

namespace ddpm::observe {

/// Seconds since some fixed point.
using Clock = std::function<double()>;

/// Seconds since the Unix epoch; may jump when the machine's time is set.
Clock wall_clock();
/// Seconds that never go backwards; only differences have a meaning.
Clock steady_clock();

}  // namespace ddpm::observe
