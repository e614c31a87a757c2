// What options of several commands accept.
#pragma once

#include "cli/command_line.h"

namespace ddpm::cli {

/// Nodes, and ranks of a node.
inline IntegerRange machine_counts() { return {1, int64_t{1} << 20}; }
/// Memory of a rank, in GiB.
inline NumberRange memory_gib_range() { return {1e-3, 1e6}; }

}  // namespace ddpm::cli
