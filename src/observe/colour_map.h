// Colours for values, so that a field can be seen.
#pragma once

#include <array>
#include <cstdint>

namespace ddpm::observe {

/// The colour of a value from 0 to 1, those outside clamped: matplotlib's "viridis" (Smith and van der Walt, 2015),
/// from dark violet to yellow, through ten of its colours. NaN is black.
std::array<uint8_t, 3> viridis(float value);

}  // namespace ddpm::observe
