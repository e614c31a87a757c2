// The end of an optimizer step: ranks agree on the gradient's norm, and each updates what it keeps.
#pragma once

#include <cstdint>
#include <span>

#include <ATen/core/Tensor.h>

#include "comm/communicator.h"
#include "engine/part_timer.h"
#include "engine/step_rules.h"
#include "engine/training_state.h"
#include "optim/loss_scaler.h"
#include "parallel/groups.h"

namespace ddpm::engine {

/// How many numbers of a step are summed over the ranks beside the gradient.
struct SumSizes {
  int64_t losses = 1;  ///< computed where the gradient is
  int64_t votes = 0;   ///< known to the host
};

/// What an update works on; all of it outlives the update.
struct UpdateContext {
  const StepRules& rules;
  TrainingState& state;
  comm::Communicator& world;   ///< host memory
  comm::Communicator* island;  ///< the ranks that make one update, host memory; null: all do
  const parallel::GradientGroups& groups;
  const optim::LossScaler& scaler;  ///< as it was before the step; the caller moves it on after finish()
  PartTimer& parts;                 ///< in the part `optimizer`, before and after
  SumSizes sizes;
};

/// What became of a step.
struct UpdateVerdict {
  /// The norm of the global batch's gradient, unscaled, before clipping; infinite where weights did not change.
  double gradient_norm = 0.0;
  double learning_rate = 0.0;  ///< rate of the update, or of the one that was skipped
  bool own_losses_finite = true;
};

/// Per step: begin(), add_sums(), start(), submit(); later finish(). On a device start() and loss_factor() only
/// launch work, on the current stream and always the same: a graph may hold it.
class Update {
 public:
  virtual ~Update() = default;

  /// Steps that may have been submitted before the first of them is finished.
  [[nodiscard]] virtual int64_t most_under_way() const = 0;
  /// Call it after state.progress or the loss scaler was set from outside, while no step is under way.
  virtual void progress_changed() = 0;

  virtual void begin() = 0;
  /// What this step's losses are multiplied by before backward, loss_scale / images_per_update() (engine/step_rules.h):
  /// float32, one number, where the gradient is.
  [[nodiscard]] virtual at::Tensor loss_factor() = 0;
  virtual void add_sums(std::span<const double> votes) = 0;
  /// Gradients are summed; `losses`, float64 where the gradient is, are numbers of this rank. If the whole gradient is
  /// finite on all ranks, the weights change, also the working weights. Collective.
  virtual void start(const at::Tensor& losses) = 0;
  virtual void submit() = 0;
  /// Waits for the oldest step under way; `sums` are those over all ranks of its losses, then of its votes. Counts the
  /// update in state.progress.applied_updates.
  virtual UpdateVerdict finish(std::span<double> sums) = 0;
};

/// Whether a rank knows the norm from its own gradient, because that is the whole one.
bool has_whole_norm(const UpdateContext& context);

}  // namespace ddpm::engine
