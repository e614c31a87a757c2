#include "engine/optimizer_step.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include <ATen/core/grad_mode.h>
#include <fmt/ranges.h>

#include "base/counted.h"
#include "base/error.h"
#include "comm/axis_communicator.h"
#include "comm/collectives.h"
#include "engine/device_update.h"
#include "engine/flat_passes.h"
#include "engine/host_update.h"
#include "engine/replicas.h"
#include "parallel/tree_reducer.h"
#include "parallel/whole_tensors.h"

namespace ddpm::engine {
namespace {

std::unique_ptr<parallel::GradientReducer> make_reducer(const StepRules& rules, parallel::ParameterArena& arena,
                                                        const parallel::GradientGroups& groups,
                                                        parallel::WeightGatherer& gatherer) {
  if (rules.parallelism.reproducible)
    return std::make_unique<parallel::TreeReducer>(arena, groups, rules.parallelism.tiles);
  const parallel::ReducerOptions options{.overlap = rules.overlap,
                                         .compression = rules.parallelism.gradient_compression};
  auto reducer = std::make_unique<parallel::OverlappedReducer>(arena, groups, options);
  if (arena.sharding().cuts_weights()) {
    reducer->on_segment_complete([&gatherer](std::size_t unit) { gatherer.release(unit); });
  }
  return reducer;
}

/// State in host memory is updated there. State on a device is updated there in as few passes as it takes, without
/// waiting in between. Collective.
std::unique_ptr<Update> make_update(const UpdateContext& context) {
  const parallel::ParameterArena& arena = context.state.arena;
  const bool on_device = !arena.gradient().is_cpu() || context.rules.device_update;
  if (on_device && arena.sharding().offload == parallel::Offload::none) return std::make_unique<DeviceUpdate>(context);
  return std::make_unique<HostUpdate>(context);
}

}  // namespace

OptimizerStep::OptimizerStep(const StepRules& rules, TrainingState& state, comm::Communicator& world,
                             comm::Communicator& data_parallel, SumSizes sizes, nn::UnitExecutor* inner)
    : rules_(rules),
      state_(state),
      world_(world),
      scaler_(rules.precision, rules.skip_nonfinite),
      gradient_groups_(data_parallel, rules.mesh),
      weight_shard_(comm::axis_communicator(data_parallel, rules.mesh, layout::Axis::shard)),
      host_shard_(comm::axis_communicator(world, rules.mesh, layout::Axis::shard)),
      host_island_(state.outer ? comm::axis_communicator(world, rules.mesh, layout::kIsland) : nullptr),
      gatherer_(state.arena, *weight_shard_, rules.overlap, inner),
      reducer_(make_reducer(rules_, state.arena, gradient_groups_, gatherer_)),
      uncut_gradient_(state.arena, state.arena.gradient_pieces(), data_parallel, rules.mesh, layout::kGradients),
      update_(make_update({rules_, state, world, host_island_.get(), gradient_groups_, scaler_, parts_, sizes})),
      outer_(rules_, state, world, data_parallel) {
  state_.progress.scaler = scaler_.state();
  update_->progress_changed();
}

void OptimizerStep::state_changed() {
  scaler_.set_state(state_.progress.scaler);
  update_->progress_changed();
  gatherer_.weights_changed();
}

void OptimizerStep::with_model_weights(const std::function<void(nn::UnitExecutor&)>& use) {
  const at::NoGradGuard no_grad;
  const bool averaged = !state_.ema.empty();
  exchange_average();
  if (averaged) gatherer_.weights_changed();
  try {
    use(gatherer_);
  } catch (...) {
    exchange_average();  // and no more, since this rank may be the only one that has come here
    throw;
  }
  exchange_average();
  if (averaged) gatherer_.weights_changed();
  gatherer_.take_exposed_seconds();  // not the next step's
}

/// The first average, if there is one, and the weights change places, so that it takes no memory: a second call undoes
/// the first.
void OptimizerStep::exchange_average() {
  if (state_.ema.empty()) return;
  state_.before_change();
  swap_values(state_.arena.master(), state_.ema.front());
  state_.arena.refresh_working();
}

bool OptimizerStep::accumulate(const ForwardBackward& forward_backward, const Interruption& interrupted) {
  const at::Tensor loss_factor = update_->loss_factor();
  const int64_t steps = rules_.layout.accumulation_steps();
  reducer_->begin_step();
  for (int64_t micro = 0; micro < steps; ++micro) {
    if (micro > 0 && interrupted()) {
      reducer_->abandon();
      return false;
    }
    reducer_->begin_micro_batch(micro + 1 == steps);
    forward_backward(micro, loss_factor);
    reducer_->end_micro_batch();
    gatherer_.release_all();
  }
  sum_gradients();
  return true;
}

void OptimizerStep::accumulate(std::span<const layout::StagePass> passes, const Forward& forward,
                               const Backward& backward) {
  const at::Tensor loss_factor = update_->loss_factor();
  reducer_->begin_step();
  for (const layout::StagePass& pass : passes) {
    if (pass.forward) {
      forward();
      continue;
    }
    reducer_->begin_micro_batch(pass.micro + 1 == rules_.layout.accumulation_steps());
    backward(loss_factor);
    reducer_->end_micro_batch();
    gatherer_.release_all();
  }
  sum_gradients();
}

void OptimizerStep::sum_gradients() {
  if (on_phase_) on_phase_(RunPhase::gradients);
  parts_.enter(StepPart::reduction);
  reducer_->finalize();
  uncut_gradient_.take_first();
}

void OptimizerStep::discard() {
  reducer_->discard();
  gatherer_.discard();
  for (const auto& entry : state_.arena.entries()) entry.value->mutable_grad().reset();
}

void OptimizerStep::update(const at::Tensor& losses) {
  if (on_phase_) on_phase_(RunPhase::update);
  parts_.enter(StepPart::optimizer);
  state_.before_change();
  update_->start(losses);
  gatherer_.weights_changed();
  parts_.enter(StepPart::other);
}

void OptimizerStep::submit() {
  update_->submit();
  ++under_way_;
}

void OptimizerStep::bring_islands_together() {
  parts_.enter(StepPart::reduction);
  outer_.run();
  gatherer_.weights_changed();
  parts_.enter(StepPart::other);
}

UpdateVerdict OptimizerStep::finish(std::span<double> sums) {
  parts_.enter(StepPart::optimizer);
  const UpdateVerdict verdict = update_->finish(sums);
  --under_way_;
  parts_.enter(StepPart::other);
  const bool finite = std::isfinite(verdict.gradient_norm);
  if (!finite) note_odd_ranks(verdict.own_losses_finite);
  count_step(finite);
  if (outer_.due(state_.progress.step)) bring_islands_together();
  if (compares(state_.progress.step)) compare_replicas(state_, rules_.mesh, world_);
  return verdict;
}

bool OptimizerStep::compares(int64_t step) const {
  return rules_.compare_replicas_every > 0 && step % rules_.compare_replicas_every == 0 &&
         has_replicas(state_, rules_.mesh);
}

int64_t OptimizerStep::may_stay_under_way() const {
  const int64_t step = next_step() - 1;
  return compares(step) || outer_.due(step) ? 0 : update_->most_under_way() - 1;
}

/// Names the ranks where it began, as far as their losses tell, since the sum of gradients has spread it to all ranks.
void OptimizerStep::note_odd_ranks(bool own_finite) {
  std::vector<int64_t> odd;
  const std::vector<std::string> answers = comm::all_gather(world_, own_finite ? "" : "odd");
  for (std::size_t rank = 0; rank < answers.size(); ++rank) {
    if (!answers[rank].empty()) odd.push_back(static_cast<int64_t>(rank));
  }
  odd_ranks_ = odd.empty() ? "; the losses are finite"
                           : fmt::format("; the loss is not finite on {} {}", base::plural(odd.size() == 1, "rank"),
                                         fmt::join(odd, ", "));
}

void OptimizerStep::count_step(bool finite) {
  Progress& progress = state_.progress;
  ++progress.step;
  if (!state_.outer) progress.averaged_updates = progress.applied_updates;
  progress.images_seen += rules_.layout.global_size;
  if (finite) {
    scaler_.update(/*found_inf=*/false);  // This ends no run, so the ranks need not agree.
  } else {
    comm::agree(world_, [&] { skip_step(); });
  }
  progress.scaler = scaler_.state();
}

void OptimizerStep::skip_step() {
  try {
    scaler_.update(/*found_inf=*/true);
  } catch (const base::NumericsError& error) {
    throw base::NumericsError("step {}: {}{}", state_.progress.step, error.what(), odd_ranks_);
  }
}

at::Tensor OptimizerStep::gather(const parallel::StateBuffer& buffer) {
  return parallel::gather_whole(state_.arena, buffer, *host_shard_, world_.rank() == 0);
}

double OptimizerStep::take_exposed_seconds() { return reducer_->exposed_seconds() + gatherer_.take_exposed_seconds(); }

}  // namespace ddpm::engine
