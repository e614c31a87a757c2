// The names of this computer, for messages and records.
#pragma once

#include <string>

namespace ddpm::base {

/// What gethostname(2) says, or "unknown host".
std::string host_name();

/// The name by which messages call this computer: the one that Slurm knows it by (SLURMD_NODENAME), which its options
/// such as --exclude take, and outside Slurm host_name().
std::string node_name();

}  // namespace ddpm::base
