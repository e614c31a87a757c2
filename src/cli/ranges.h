// What options of several commands accept.
#pragma once

#include "cli/command_line.h"

namespace ddpm::cli {

/// Nodes, and ranks of a node.
inline IntegerRange machine_counts() { return {1, int64_t{1} << 20}; }
/// Threads of a rank; 0: derived.
inline IntegerRange thread_counts() { return {0, 4096}; }
/// Images of a set, or so many at most of them; `least` may be 0, where that means all.
inline IntegerRange image_counts(int64_t least) { return {least, 1'000'000'000}; }
/// Memory of a rank, in GiB.
inline NumberRange memory_gib_range() { return {1e-3, 1e6}; }

}  // namespace ddpm::cli
