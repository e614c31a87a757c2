// One optimizer step of the UNet on images: OptimizerStep with the denoising loss.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "comm/communicator.h"
#include "comm/timed_communicator.h"
#include "data/loader.h"
#include "denoise/batch_stager.h"
#include "denoise/denoising_loss.h"
#include "denoise/model_inputs.h"
#include "diffusion/formulation.h"
#include "engine/optimizer_step.h"
#include "engine/step_clock.h"
#include "engine/step_graph.h"
#include "parallel/activation_checkpointing.h"
#include "parallel/pipeline_stage.h"
#include "parallel/planned_tile.h"
#include "run/supervision.h"
#include "train/callback.h"
#include "train/model_tiles.h"
#include "train/task.h"
#include "train/unet_state.h"

namespace ddpm::train {

/// Per step: begin(), later finished(). On a GPU the next step begins before the host knows what became of this one.
class DenoisingStep {
 public:
  /// `world` (host memory) and `data_parallel` (where gradients are) hold the same ranks; everything outlives this
  /// object. Collective.
  DenoisingStep(const Task& task, UNetState& model, comm::Communicator& world, comm::Communicator& data_parallel,
                run::Supervision& supervision, engine::StepGraph graph);

  /// Takes the micro-batches of the next step. False when the run was asked to stop between them: then the step did not
  /// happen. Collective.
  bool begin(data::BatchLoader& loader);
  /// The result of the oldest step under way, which is counted in model.progress. Weights change only when the whole
  /// gradient is finite. None when no step is under way, or if none has to be waited for before the next begins, unless
  /// the caller wants to `settle` all. Collective. Throws NumericsError when the loss scale is exhausted.
  std::optional<StepResult> finished(bool settle);
  /// The number of the step that began last.
  [[nodiscard]] int64_t last_begun() const { return step_.next_step() - 1; }
  /// Whether the state is that of model.progress.step.
  [[nodiscard]] bool settled() const { return step_.under_way() == 0; }
  /// See OptimizerStep.
  void with_model_weights(const std::function<void(nn::UnitExecutor&)>& use);
  /// The tile of each image, and the part of the blocks' channels, that are this rank's.
  [[nodiscard]] denoise::TilePair tiles() const { return model_tiles_.pair(); }
  /// Where this rank's time goes: on a GPU after time_parts() only.
  [[nodiscard]] engine::PartTimer& parts() { return step_.parts(); }
  /// From now on each part waits for the device, and there is no graph: slower than training.
  void time_parts();
  /// From now on parts, units and transfers of steps are spans of `trace` while that records; there is no graph. Null
  /// ends it.
  void trace(base::Trace* trace);
  /// Call it after the master weights or the progress were set from outside. Collective.
  void state_changed() { step_.state_changed(); }

 private:
  bool launch(data::BatchLoader& loader);
  void launch_recorded(data::BatchLoader& loader);
  void join_pipeline();
  void launch_stage(data::BatchLoader& loader);
  /// Seconds that this rank waited for others, since the last call.
  double take_exposed_seconds();
  [[nodiscard]] at::Tensor learn(const denoise::StoredBatch& stored, const at::Tensor& loss_factor);
  [[nodiscard]] denoise::DenoisingLoss denoising(nn::UnitExecutor& units) const;
  [[nodiscard]] denoise::ModelBatch model_batch(const denoise::StoredBatch& stored);
  denoise::StoredBatch next_batch(data::BatchLoader& loader);

  const Task& task_;
  const Config& config_;
  UNetState& model_;
  comm::Communicator& world_;
  run::Supervision& supervision_;
  diffusion::ForwardProcess process_;
  denoise::BatchFeeder feeder_;
  denoise::ModelInputs inputs_;
  std::optional<denoise::Augmentation> augmentation_;
  std::unique_ptr<comm::Communicator> tiles_;  // the ranks that hold tiles of the same images; null: they are whole
  // The ranks that hold parts of the same blocks; null: they are whole.
  std::unique_ptr<comm::TimedCommunicator> channels_;
  ModelTiles model_tiles_;
  std::unique_ptr<comm::Communicator> stages_;  // the ranks that hold the other units; null: this one holds all
  std::unique_ptr<parallel::PlannedTile> planned_tile_;  // tile that `pipeline_` plans with; null: images are whole
  parallel::ActivationCheckpointer checkpointer_;
  engine::OptimizerStep step_;
  std::unique_ptr<parallel::PipelineStage> pipeline_;
  engine::StepGraph graph_;
  std::vector<denoise::StoredBatch> held_;  // what the graph reads: one for each micro-batch
  engine::StepClock clock_;
  base::Trace* trace_ = nullptr;
};

}  // namespace ddpm::train
