// `ddpm train`: from a configuration to a trained model, started and resumed by the same call.
#pragma once

#include "run/runtime.h"
#include "train/config.h"

namespace ddpm::train {

/// Trains until the configured number of steps and writes RUN/model. Collective over the session's world. A finished
/// run returns at once and changes nothing. Throws the typed errors of base/error.h; a run refused before its first
/// step leaves no new file behind.
void train(Configuration& configuration, const run::Runtime& runtime);

}  // namespace ddpm::train
