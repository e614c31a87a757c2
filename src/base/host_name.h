// The name of this computer, for messages and records; comm/node_names.h has the one that Slurm knows it by.
#pragma once

#include <string>

namespace ddpm::base {

/// What gethostname(2) says, or "unknown host".
std::string host_name();

}  // namespace ddpm::base
