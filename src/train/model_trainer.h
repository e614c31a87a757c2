// Trains any model with any loss, on any number of ranks: what `ddpm train` does with its UNet, for a model of the
// caller's own. See docs/library.md and examples/own_model.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "base/parameter_role.h"
#include "device/choose_device.h"
#include "engine/optimizer_step.h"
#include "engine/step_clock.h"
#include "run/placement.h"
#include "run/runtime.h"
#include "run/snapshot.h"
#include "run/supervision.h"
#include "train/block_norm_monitor.h"
#include "train/callback.h"
#include "train/driver.h"
#include "train/logging.h"
#include "train/own_metrics.h"
#include "train/trainer_config.h"

namespace ddpm::train {

/// A tensor of a model, by its name there.
struct OwnTensor {
  std::string name;
  at::Tensor value;
  /// Trained and frozen ones are of floating point and get the compute dtype; rank 0 saves what is not trained.
  base::ParameterRole role = base::ParameterRole::trained;
};

/// A model as the trainer sees it; train/torch_module.h makes one of a torch::nn::Module. Tensors are handles: the
/// trainer gives the caller's own tensors new memory, so that the model's forward pass uses the trained weights.
struct OwnModel {
  std::vector<OwnTensor> tensors;
  /// Names of submodules in the order in which forward runs them. Each trained parameter belongs to the one whose
  /// name and a dot its own name begins with. Needed for parallel.zero_stage = 3 to gather less than the whole model
  /// at a time, and for parallel.activation_checkpointing: forward then runs each of them by ModelTrainer::run_unit.
  /// Empty: one unit, gathered around each micro-batch. The squares of the gradient's norm are summed in their order:
  /// with other units its last bit may differ, even under run.reproducible.
  std::vector<std::string> units = {};
};

/// Samples [first, first + count) of the global batch of `step` (0 is the first). A model sees the same training on
/// any number of ranks when its samples are functions of these numbers.
struct MicroBatchPosition {
  int64_t step = 0;
  int64_t first = 0;
  int64_t count = 0;
};

/// A function is collective unless it says otherwise or returns what is known already: all ranks call it, in the same
/// order.
class ModelTrainer {
 public:
  /// Takes over the model's tensors: initial values are those of rank 0. The configuration, `runtime` and whatever
  /// owns the tensors outlive the trainer. Throws ConfigError for what cannot work.
  ModelTrainer(const TrainerConfiguration& configuration, const run::Runtime& runtime, const OwnModel& model);
  ModelTrainer(const ModelTrainer&) = delete;
  ModelTrainer& operator=(const ModelTrainer&) = delete;

  /// Has `callback` called after each step, in the order of these calls: a validation, for example, with
  /// train/validation_history.h to keep the best checkpoint and to stop early. Before resume(). It outlives the last
  /// call of the functions below.
  void add(Callback& callback) { driver_.add(callback); }
  /// The run folder's checkpoints, for callbacks that look at them.
  [[nodiscard]] const checkpoint::CheckpointStore& checkpoints() { return driver_.store(); }

  /// Takes the run folder and resumes from its newest checkpoint, of any number of ranks and any ZeRO stage. Returns
  /// false for a new run. Call it once, before the first step. Throws OutputError (exit code 4) for a folder that holds
  /// another run. A run that is done() stays untouched.
  bool resume();
  /// Whether all train.steps are done, or a callback has ended the run.
  [[nodiscard]] bool done() const { return driver_.ended(state_.progress.step); }
  [[nodiscard]] const engine::Progress& progress() const { return state_.progress; }

  /// The sum of the samples' losses as a differentiable scalar. Called once per micro-batch of this rank. Before each
  /// call LibTorch's random numbers are seeded by (run.seed, step, first).
  using Loss = std::function<at::Tensor(const MicroBatchPosition& position)>;
  /// One optimizer step: accumulation, reduction, clipping, update. Saves where checkpoint.every_steps says so and
  /// after the last step. Throws NumericsError (exit code 6) for a gradient that is not finite, and Stopped when the
  /// run was asked to end ([fault]) and has written a checkpoint: run_program() makes exit code 75 of it.
  StepResult step(const Loss& loss);
  /// Adds numbers to the line of this step in metrics.jsonl, and as own/NAME to TensorBoard: the mean of all that was
  /// given under a name within the step, by all micro-batches and ranks. Called within the loss function or by a
  /// callback that was added; what is given between two steps counts for the later one. All ranks give the same names
  /// in a step, each rank as often; a step that is not logged drops its numbers. Throws ConfigError for a name that
  /// metrics.jsonl or metrics.csv has already or cannot have. Not collective: the step is.
  void log(const std::map<std::string, double>& values) { own_metrics_.add(values); }
  /// Counts seconds that the step under way waited for samples: data_wait_fraction of metrics.jsonl.
  void waited_for_data(double seconds) { data_wait_ += seconds; }
  /// Makes sure that there is a checkpoint of this step: on return it is on disk. One that step() has begun is
  /// otherwise finished by a later step, at the latest by the last one: call save() before leaving earlier.
  void save();

  /// What forward and backward compute in: cast the model's inputs to it.
  [[nodiscard]] at::ScalarType compute_dtype() const { return place_.compute_dtype; }
  [[nodiscard]] at::Device device() const { return place_.device; }
  /// This rank's share of batches and state.
  [[nodiscard]] const run::Placement& placement() const { return place_; }
  [[nodiscard]] const TrainerConfig& config() const { return config_; }
  /// Runs `forward` of the named unit, all of whose gradients come by way of what it returns. Within the loss
  /// function or with_weights(), on all ranks in the same order.
  [[nodiscard]] at::Tensor run_unit(const std::string& name, const std::function<at::Tensor()>& forward);
  [[nodiscard]] std::vector<at::Tensor> run_unit(const std::string& name,
                                                 const std::function<std::vector<at::Tensor>()>& forward);
  /// Runs `forward` of the named unit on `inputs`, its activations. With parallel.activation_checkpointing = "blocks"
  /// only the inputs are kept for backward, which runs `forward` once more with the same random numbers: gradients
  /// have the same bits. So `forward` depends on nothing else that changes, changes nothing, and what it refers to
  /// outlives the backward pass; of its inputs, those that need gradients get them.
  using UnitForward = std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>& inputs)>;
  [[nodiscard]] std::vector<at::Tensor> run_unit(const std::string& name, const std::vector<at::Tensor>& inputs,
                                                 const UnitForward& forward);
  [[nodiscard]] at::Tensor run_unit(const std::string& name, const at::Tensor& input,
                                    const std::function<at::Tensor(const at::Tensor& input)>& forward);
  /// Runs `work`, for example a validation, with the model's whole weights there and without gradients.
  void with_weights(const std::function<void()>& work);
  /// All tensors by name as float32 on the host, raw or averaged: all of them on rank 0, none elsewhere.
  /// Throws base::ConfigError for an average of any length, which is made of checkpoints.
  [[nodiscard]] std::map<std::string, at::Tensor> weights(const run::WeightChoice& choice = {});

 private:
  StepResult one_step(const Loss& loss);
  double forward_backward(const Loss& loss, int64_t micro, const at::Tensor& loss_factor);
  [[nodiscard]] std::size_t unit_number(const std::string& name) const;

  const TrainerConfig& config_;
  run::Runtime runtime_;
  comm::Communicator& world_;
  run::Supervision supervision_;  // from the first collective call on
  run::Placement place_;
  std::vector<std::string> units_;
  std::vector<OwnTensor> tensors_;  // in the state's order, which binds them
  engine::TrainingState state_;
  device::DataParallelDevice data_parallel_;
  engine::OptimizerStep step_;
  Driver driver_;
  engine::StepClock clock_;
  double data_wait_ = 0.0;
  ProgressDisplay display_;
  Logging logging_;
  OwnMetrics own_metrics_;
  BlockNormMonitor norms_;
};

}  // namespace ddpm::train
