// Multiples.
#pragma once

#include <cstdint>

namespace ddpm::base {

/// `n`, which is not negative, rounded up to a multiple of `unit`.
constexpr int64_t round_up(int64_t n, int64_t unit) { return (n + unit - 1) / unit * unit; }

}  // namespace ddpm::base
