// One optimizer step of all ranks: micro-batches, reduction, agreement, update.
#pragma once

#include <functional>
#include <memory>

#include "data/loader.h"
#include "diffusion/schedule.h"
#include "optim/loss_scaler.h"
#include "parallel/activation_checkpointing.h"
#include "parallel/gradient_reducer.h"
#include "parallel/groups.h"
#include "parallel/weight_gatherer.h"
#include "train/denoising_step.h"
#include "train/model_state.h"
#include "train/setup.h"
#include "train/step_clock.h"

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
  OptimizerStep(const Setup& setup, ModelState& model, comm::Communicator& world, comm::Communicator& data_parallel);

  /// Takes the next micro-batches of one step, and counts it in model.progress. Weights change only when the whole
  /// gradient is finite. Collective. Throws NumericsError when the loss scale is exhausted.
  StepOutcome run(data::BatchLoader& loader);
  /// Calls `use` with the working weights of RUN/model, the first average or else the raw weights, and with the
  /// executor that gets them; no gradients are recorded. Afterwards every bit is as it was, unless `use` throws.
  /// Collective.
  void with_model_weights(const std::function<void(nn::UnitExecutor&)>& use);
  /// After the master weights or the progress were set from outside. Collective.
  void state_changed();

 private:
  void swap_in_average();
  LossSums accumulate(data::BatchLoader& loader);
  double agree(LossSums& sums);
  void update(double norm, double& learning_rate);

  const Setup& setup_;
  const Config& config_;
  ModelState& model_;
  comm::Communicator& world_;
  diffusion::NoiseSchedule schedule_;
  optim::LossScaler scaler_;
  parallel::DataParallelGroups gradient_groups_;
  parallel::DataParallelGroups weight_groups_;
  parallel::ActivationCheckpointer checkpointer_;
  parallel::WeightGatherer gatherer_;
  std::unique_ptr<parallel::GradientReducer> reducer_;
  StepClock clock_;
};

}  // namespace ddpm::train
