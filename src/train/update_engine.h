// The end of an optimizer step: ranks agree on the gradient's norm, and each updates what it keeps.
#pragma once

#include <memory>
#include <span>

#include "comm/communicator.h"
#include "optim/loss_scaler.h"
#include "parallel/groups.h"
#include "train/step_parts.h"
#include "train/step_rules.h"
#include "train/trained_state.h"

namespace ddpm::train {

/// What an update works on; all of it outlives the engine.
struct UpdateContext {
  const StepRules& rules;
  TrainedState& state;
  comm::Communicator& world;  ///< host memory
  const parallel::DataParallelGroups& groups;
  const optim::LossScaler& scaler;  ///< as it was before the step; the caller moves it on after finish()
  PartTimer& parts;                 ///< in the part `optimizer`, before and after
};

/// Per step: start(), then finish().
class UpdateEngine {
 public:
  virtual ~UpdateEngine() = default;

  /// After state.progress, or the loss scaler, was set from outside.
  virtual void progress_changed() = 0;
  /// Gradients are summed; `sums`, as many at each call, are numbers of this rank. If the whole gradient is finite on
  /// all ranks, the weights change, also the working weights. On a device they do so later, on the current stream.
  /// Collective.
  virtual void start(std::span<const double> sums) = 0;
  /// `sums` over all ranks, and the norm of the global batch's gradient, unscaled, before clipping; infinite where the
  /// weights stayed as they were. Counts the update in state.progress.applied_updates.
  virtual double finish(std::span<double> sums) = 0;
};

/// Whether a rank knows the norm from its own gradient, because that is the whole one.
bool has_whole_norm(const UpdateContext& context);

/// On the host where the state is; else as few passes over device memory as it takes, without waiting in between.
/// Collective.
std::unique_ptr<UpdateEngine> make_update_engine(const UpdateContext& context);

}  // namespace ddpm::train
