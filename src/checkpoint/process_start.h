// Telling a process from a later one with the same id.
#pragma once

#include <cstdint>
#include <string>

namespace ddpm::checkpoint {

/// Boot id and start tick of a process on this host; "" when there is no such process, or only its corpse.
std::string process_start_of(int64_t pid);

}  // namespace ddpm::checkpoint
