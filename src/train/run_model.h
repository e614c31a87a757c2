// The model of a run that was trained here, as its configuration describes it.
#pragma once

#include "base/file_system.h"
#include "denoise/load_model.h"
#include "train/config.h"

namespace ddpm::train {

/// Reads RUN/config.toml. A fault in it lies in the run's folder, not in what the user configured, so both functions
/// throw OutputError (exit code 4).
void read_run_configuration(const base::Path& file, Configuration& configuration);
denoise::RunModel read_run_model(const base::Path& file);

}  // namespace ddpm::train
