// One optimizer step of the UNet on images: ShardedStep with the denoising loss.
#pragma once

#include <functional>
#include <optional>
#include <vector>

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
#include "train/step_graph.h"
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

/// Per step: begin(), later conclude(). On a GPU the next step begins before the host knows what became of this one.
class OptimizerStep {
 public:
  /// `world` (host memory) and `data_parallel` (where gradients are) hold the same ranks; everything outlives this
  /// object. Collective.
  OptimizerStep(const Setup& setup, ModelState& model, comm::Communicator& world, comm::Communicator& data_parallel,
                Supervision& supervision, StepGraph graph);

  /// Takes the micro-batches of the next step. False when the run was asked to stop between them: then the step did not
  /// happen. Collective.
  bool begin(data::BatchLoader& loader);
  /// The outcome of the oldest step under way, which is counted in model.progress. Weights change only when the whole
  /// gradient is finite. None when no step is under way, or if none has to be waited for before the next begins, unless
  /// the caller wants to `settle` all. Collective. Throws NumericsError when the loss scale is exhausted.
  std::optional<StepOutcome> conclude(bool settle);
  /// Of the step that began last.
  [[nodiscard]] int64_t last_begun() const { return step_.next_step() - 1; }
  /// Whether the state is that of model.progress.step.
  [[nodiscard]] bool settled() const { return step_.under_way() == 0; }
  /// See ShardedStep.
  void with_model_weights(const std::function<void(nn::UnitExecutor&)>& use) { step_.with_model_weights(use); }
  /// Where this rank's time goes: on a GPU after time_parts() only.
  [[nodiscard]] PartTimer& parts() { return step_.parts(); }
  /// From now on each part waits for the device, and there is no graph: slower than training.
  void time_parts();
  /// After the master weights or the progress were set from outside. Collective.
  void state_changed() { step_.state_changed(); }

 private:
  bool launch(data::BatchLoader& loader);
  void launch_recorded(data::BatchLoader& loader);
  [[nodiscard]] at::Tensor learn(const StoredBatch& stored, const at::Tensor& loss_factor);
  StoredBatch next_batch(data::BatchLoader& loader);

  const Setup& setup_;
  const Config& config_;
  ModelState& model_;
  comm::Communicator& world_;
  Supervision& supervision_;
  diffusion::NoiseSchedule schedule_;
  BatchFeeder feeder_;
  parallel::ActivationCheckpointer checkpointer_;
  ShardedStep step_;
  StepGraph graph_;
  std::vector<StoredBatch> held_;  // what the graph reads: one for each micro-batch
  StepClock clock_;
};

}  // namespace ddpm::train
