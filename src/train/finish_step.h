// The end of a training step of any model.
#pragma once

#include <span>

#include "comm/communicator.h"
#include "engine/optimizer_step.h"
#include "engine/step_clock.h"
#include "engine/training_state.h"
#include "run/supervision.h"
#include "train/callback.h"

namespace ddpm::train {

/// Waits for the oldest step under way, which engine::OptimizerStep::finish() counts in `state`, and has `supervision`
/// decide on what the ranks vote. `losses` become the sums over all ranks. Returns what is known of the step but its
/// losses, of which the quartiles are NaN. Collective; throws as finish().
StepResult finish_step(engine::OptimizerStep& step, const engine::TrainingState& state, run::Supervision& supervision,
                       engine::StepClock& clock, comm::Communicator& world, std::span<double> losses);

}  // namespace ddpm::train
