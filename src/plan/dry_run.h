// Reports what a run would be on any number of ranks, from one process that trains nothing and writes nothing.
#pragma once

#include <cstdint>
#include <string>

#include "run/runtime.h"
#include "train/config.h"

namespace ddpm::plan {

/// Checks everything that training checks before its first step and that can be checked without writing, as if `ranks`
/// ranks had been started: combinations of keys (all refusals in one ConfigError), the training and the
/// validation set and whether they fit the model, the run folder, the checkpoint that training would resume from or the
/// weights that it would begin with, room for a checkpoint, starts without progress. The device, the run's lock and
/// permission to write are left to training. Throws what training would throw. Returns a report for people: who owns
/// what, how the batch is cut, memory, and communication per step. Settles keys whose default depends on the images.
/// Collective.
std::string dry_run(train::Configuration& configuration, const run::Runtime& runtime, int64_t ranks);

}  // namespace ddpm::plan
