// One optimizer step of the UNet on images: ShardedStep with the denoising loss.
#pragma once

#include <functional>
#include <optional>

#include "comm/communicator.h"
#include "data/loader.h"
#include "diffusion/schedule.h"
#include "parallel/activation_checkpointing.h"
#include "train/batch_stager.h"
#include "train/denoising_step.h"
#include "train/model_state.h"
#include "train/setup.h"
#include "train/sharded_step.h"
#include "train/step_clock.h"
#include "train/supervision.h"

namespace ddpm::train {

/// What one optimizer step tells, the same on every rank.
struct StepOutcome {
  LossSums sums;               ///< over the global batch
  double gradient_norm = 0.0;  ///< of the global batch, unscaled, before clipping
  double learning_rate = 0.0;
  double loss_scale = 1.0;
  StepTimes times;  ///< of the slowest rank
};

class OptimizerStep {
 public:
  /// `world` (host memory) and `data_parallel` (where gradients are) hold the same ranks; everything outlives this
  /// object. Collective.
  OptimizerStep(const Setup& setup, ModelState& model, comm::Communicator& world, comm::Communicator& data_parallel,
                Supervision& supervision);

  /// Takes the next micro-batches of one step, and counts it in model.progress. Weights change only when the whole
  /// gradient is finite. None when the run was asked to stop between its micro-batches: then the step did not happen.
  /// Collective. Throws NumericsError when the loss scale is exhausted.
  std::optional<StepOutcome> run(data::BatchLoader& loader);
  /// See ShardedStep.
  void with_model_weights(const std::function<void(nn::UnitExecutor&)>& use) { step_.with_model_weights(use); }
  /// Where this rank's time goes.
  [[nodiscard]] PartTimer& parts() { return step_.parts(); }
  /// After the master weights or the progress were set from outside. Collective.
  void state_changed() { step_.state_changed(); }

 private:
  std::optional<LossSums> accumulate(data::BatchLoader& loader);

  const Setup& setup_;
  const Config& config_;
  ModelState& model_;
  comm::Communicator& world_;
  Supervision& supervision_;
  diffusion::NoiseSchedule schedule_;
  BatchFeeder feeder_;
  parallel::ActivationCheckpointer checkpointer_;
  ShardedStep step_;
  StepClock clock_;
};

}  // namespace ddpm::train
