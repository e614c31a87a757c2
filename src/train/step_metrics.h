// What a step reports of itself.
#pragma once

#include <cstdint>

#include "comm/communicator.h"
#include "observe/metrics_log.h"
#include "train/denoising_step.h"

namespace ddpm::train {

/// Highest resident memory of this process so far.
int64_t peak_resident_bytes();

/// The metrics of the step that `progress` has just counted. Collective, for the highest memory of any rank.
observe::StepMetrics step_metrics(const StepOutcome& outcome, const engine::Progress& progress, int64_t global_size,
                                  comm::Communicator& world);

}  // namespace ddpm::train
