// One optimizer step of any model on all ranks: micro-batches, reduction, agreement, update. Knows no UNet and no data.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "comm/communicator.h"
#include "engine/outer_step.h"
#include "engine/part_timer.h"
#include "engine/run_phase.h"
#include "engine/step_rules.h"
#include "engine/training_state.h"
#include "engine/update.h"
#include "layout/pipeline.h"
#include "nn/unit_executor.h"
#include "optim/loss_scaler.h"
#include "parallel/gradient_reducer.h"
#include "parallel/groups.h"
#include "parallel/uncut_pieces.h"
#include "parallel/weight_gatherer.h"

namespace ddpm::engine {

/// Per step: begin(), accumulate(), add_sums(), update(), submit(); later finish(). Where may_stay_under_way()
/// allows it, the next step may be submitted before this one is finished: a device that computes is then never
/// waited for.
class OptimizerStep {
 public:
  /// `world` (host memory) and `data_parallel` (where gradients are) hold the same ranks; everything outlives this
  /// object. `inner` runs the model's units, inside of their weights' gathering. Collective.
  OptimizerStep(const StepRules& rules, TrainingState& state, comm::Communicator& world,
                comm::Communicator& data_parallel, SumSizes sizes, nn::UnitExecutor* inner = nullptr);

  void begin() { update_->begin(); }
  /// Calls `forward_backward` for each of this rank's micro-batches, which back-propagates the sum of its samples'
  /// losses × `loss_factor` (float32, one number, where gradients are), and sums the gradients over the ranks of
  /// layout::kGradients.
  /// Collective.
  using ForwardBackward = std::function<void(int64_t micro, const at::Tensor& loss_factor)>;
  /// It is asked between micro-batches, and answers alike on every rank.
  using Interruption = std::function<bool()>;
  /// Returns false when `interrupted` said so: the step is discarded, and no further function of it may be called.
  bool accumulate(const ForwardBackward& forward_backward, const Interruption& interrupted);
  /// Does the same in a given order of passes, in which forward may run ahead of backward. Calls `forward` and
  /// `backward` once for each micro-batch, both in the order of micro-batches. Collective.
  using Forward = std::function<void()>;
  using Backward = std::function<void(const at::Tensor& loss_factor)>;
  void accumulate(std::span<const layout::StagePass> passes, const Forward& forward, const Backward& backward);
  /// Forgets an accumulate() and an update() whose work was recorded, not run (device/device_graph.h).
  void discard();
  /// Numbers of this rank that are summed over all ranks: after begin(), before update().
  void add_sums(std::span<const double> votes) { update_->add_sums(votes); }
  /// If the whole gradient is finite, changes the weights. `losses`: float64 where gradients are, summed like the
  /// votes. Collective.
  void update(const at::Tensor& losses);
  void submit();
  /// Waits for the oldest step under way, and counts it in state.progress. `sums`: those of its losses, then of its
  /// votes, over all ranks. Collective. Throws NumericsError when the loss scale is exhausted, and when ranks no longer
  /// hold what they should hold alike.
  UpdateVerdict finish(std::span<double> sums);

  [[nodiscard]] int64_t under_way() const { return under_way_; }
  /// How many steps may be under way when the next begins: none where finish() compares what ranks hold, or brings
  /// islands together.
  [[nodiscard]] int64_t may_stay_under_way() const;
  /// The number of the step that begins next, or has begun; the first is 1.
  [[nodiscard]] int64_t next_step() const { return state_.progress.step + under_way_ + 1; }

  /// Calls `use` with the working weights of a finished model (the first average, or the raw weights if there is none)
  /// and with the executor that gets them; no gradients are recorded. Afterwards every bit is as it was; where `use`
  /// throws, those of what this rank keeps are, and weights of other ranks have to be gathered anew. Collective.
  void with_model_weights(const std::function<void(nn::UnitExecutor&)>& use);
  /// Sets a function that is called when a step enters a phase.
  void on_phase(std::function<void(RunPhase)> listener) { on_phase_ = std::move(listener); }
  /// Call it after the master weights or the progress were set from outside. Collective.
  void state_changed();

  /// Whether state is offloaded: the work of a step then waits for the device and cannot be recorded.
  [[nodiscard]] bool updates_on_host() const { return update_->most_under_way() == 1; }
  [[nodiscard]] double loss_scale() const { return scaler_.scale(); }
  /// What forward and backward get their weights from.
  [[nodiscard]] parallel::WeightGatherer& weights() { return gatherer_; }
  /// Whole float32 values of a state buffer on rank 0, in the arena's order; undefined elsewhere. Collective.
  [[nodiscard]] at::Tensor gather(const parallel::StateBuffer& buffer);
  /// Where this rank's time goes: accumulate() leaves forward and backward to its callback.
  [[nodiscard]] PartTimer& parts() { return parts_; }
  /// From now on parts and transfers are spans of `trace`, which outlives this object.
  void trace(base::Trace* trace) {
    parts_.trace(trace);
    reducer_->trace(trace);
    gatherer_.trace(trace);
  }
  /// Seconds that ranks waited for each other's numbers in the last step.
  [[nodiscard]] double take_exposed_seconds();

 private:
  [[nodiscard]] bool compares(int64_t step) const;
  void sum_gradients();
  void bring_islands_together();
  void exchange_average();
  void count_step(bool finite);
  void skip_step();
  void note_odd_ranks(bool own_finite);

  StepRules rules_;
  TrainingState& state_;
  comm::Communicator& world_;
  optim::LossScaler scaler_;
  parallel::GradientGroups gradient_groups_;
  std::unique_ptr<comm::Communicator> weight_shard_;  // the shard group, for weights: beside the gradients' traffic
  std::unique_ptr<comm::Communicator> host_shard_;    // the shard group, for values in host memory
  std::unique_ptr<comm::Communicator> host_island_;   // the ranks that make one update, in host memory; null: all do
  parallel::WeightGatherer gatherer_;
  std::unique_ptr<parallel::GradientReducer> reducer_;
  parallel::UncutPieces uncut_gradient_;
  std::function<void(RunPhase)> on_phase_;
  PartTimer parts_;
  std::unique_ptr<Update> update_;
  OuterStep outer_;
  int64_t under_way_ = 0;
  std::string odd_ranks_;  // for the error, when a gradient is not finite
};

}  // namespace ddpm::engine
