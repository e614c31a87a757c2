// Ranges of command-line numbers, checked as integers: what is refused is named with bounds that a person can read.
#pragma once

#include <cstdint>
#include <limits>

#include <CLI/CLI.hpp>

namespace ddpm::cli {

inline CLI::Range integer_range(int64_t min, int64_t max) { return {min, max}; }

/// An unsigned option alone would take -1 for a very large number.
inline CLI::Range seed_range() { return integer_range(0, std::numeric_limits<int64_t>::max()); }

}  // namespace ddpm::cli
