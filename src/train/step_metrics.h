// What a step reports of itself.
#pragma once

#include <cstdint>

#include <c10/core/Device.h>

#include "comm/communicator.h"
#include "observe/metrics_log.h"
#include "train/denoising_step.h"

namespace ddpm::train {

/// The metrics of the step that `progress` has just counted. Collective, for the highest memory of any rank, where
/// `device` computes.
observe::StepMetrics step_metrics(const StepOutcome& outcome, const engine::Progress& progress, int64_t global_size,
                                  c10::Device device, comm::Communicator& world);

}  // namespace ddpm::train
