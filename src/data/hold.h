// data.hold: sets that fit into memory are read once, at the start.
#pragma once

#include "comm/communicator.h"
#include "data/dataset.h"

namespace ddpm::data {

/// Dataset::hold(), after a look at the memory of every host: throws ConfigError on all ranks where the images take
/// more than half of what is available on one of them (base/machine_memory.h). Collective.
void hold_in_memory(comm::Communicator& comm, Dataset& dataset);

}  // namespace ddpm::data
