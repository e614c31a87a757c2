// What a run would be on any number of ranks, found out by one process that trains nothing and writes nothing.
#pragma once

#include <cstdint>
#include <string>

#include "train/config.h"
#include "train/trainer.h"

namespace ddpm::train {

/// Checks everything that training checks before its first step, as if `ranks` ranks had been started: combinations of
/// keys (all refusals in one ConfigError, a line each), the data set and whether it fits the model, the run folder.
/// Throws what training would throw. Returns a report for people: who owns what, how the batch is cut, memory, and
/// communication per step. Collective.
std::string dry_run(Configuration& configuration, const Runtime& runtime, int64_t ranks);

}  // namespace ddpm::train
