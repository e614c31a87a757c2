// The name of this computer, for messages and records.
#pragma once

#include <string>

namespace ddpm::base {

/// What gethostname(2) says, or "unknown host".
std::string host_name();

}  // namespace ddpm::base
