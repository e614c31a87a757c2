// How far counters of a run may go, as configured and as a checkpoint says.
#pragma once

#include <cstdint>
#include <limits>

namespace ddpm::engine {

// Images are numbered step · global_size + position over the whole run: below 2^63.
inline constexpr int64_t kMaxSteps = 1'000'000'000;
inline constexpr int64_t kMaxBatch = std::numeric_limits<int32_t>::max();

}  // namespace ddpm::engine
