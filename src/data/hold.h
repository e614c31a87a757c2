// data.hold: sets that fit into memory are read once, at the start.
#pragma once

#include <cstdint>
#include <string_view>

#include "comm/communicator.h"
#include "data/dataset.h"

namespace ddpm::data {

/// MemAvailable of the text of /proc/meminfo in bytes; 0 where it is not said.
int64_t available_memory(std::string_view meminfo);

/// Dataset::hold(), after a look at the memory of every host: throws ConfigError on all ranks where the images take
/// more than half of what is available on one of them. Collective.
void hold_in_memory(comm::Communicator& comm, Dataset& dataset);

}  // namespace ddpm::data
