#include "train/sharded_step.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include <ATen/core/grad_mode.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "comm/collectives.h"
#include "optim/clip.h"
#include "parallel/tree_reducer.h"
#include "train/replicas.h"
#include "train/update.h"

namespace ddpm::train {
namespace {

std::unique_ptr<parallel::GradientReducer> make_reducer(const StepRules& rules, parallel::ParameterArena& arena,
                                                        const parallel::DataParallelGroups& groups,
                                                        parallel::WeightGatherer& gatherer) {
  if (rules.reproducible) return std::make_unique<parallel::TreeReducer>(arena, groups);
  auto reducer = std::make_unique<parallel::OverlappedReducer>(arena, groups, rules.parallel);
  if (arena.sharding().zero_stage == 3) {
    reducer->on_segment_complete([&gatherer](std::size_t unit) { gatherer.release(unit); });
  }
  return reducer;
}

/// Sums each number over the ranks on the fixed tree of optim::tree_sum.
void tree_all_reduce(comm::Communicator& world, std::span<double> row) {
  const auto ranks = static_cast<std::size_t>(world.size());
  std::vector<double> rows(ranks * row.size());
  world.all_gather({row.data(), std::ssize(row), base::DType::f64}, {rows.data(), std::ssize(rows), base::DType::f64})
      .wait();
  std::vector<double> column(ranks);
  for (std::size_t i = 0; i < row.size(); ++i) {
    for (std::size_t rank = 0; rank < ranks; ++rank) column[rank] = rows[rank * row.size() + i];
    row[i] = optim::tree_sum(column);
  }
}

}  // namespace

StepRules rules_of(const CommonConfig& config, const Placement& place, int64_t total_steps) {
  return {.layout = place.layout,
          .sizes = place.sizes,
          .total_steps = total_steps,
          .reproducible = config.run.reproducible,
          .parallel = config.parallel,
          .optimizer = config.optimizer,
          .lr_schedule = config.lr_schedule,
          .ema = config.ema,
          .precision = config.precision,
          .skip_nonfinite = config.fault.skip_nonfinite,
          .compare_replicas_every = config.fault.compare_replicas_every};
}

ShardedStep::ShardedStep(const StepRules& rules, TrainedState& state, comm::Communicator& world,
                         comm::Communicator& data_parallel, nn::UnitExecutor* inner)
    : rules_(rules),
      state_(state),
      world_(world),
      scaler_(rules.precision, rules.skip_nonfinite),
      gradient_groups_(data_parallel, rules.sizes),
      weight_groups_(data_parallel, rules.sizes),
      host_shard_(world.split(static_cast<int>(world.rank() / rules.sizes.shard), world.rank())),
      gatherer_(state.arena, weight_groups_, rules.parallel.overlap, inner),
      reducer_(make_reducer(rules_, state.arena, gradient_groups_, gatherer_)) {
  if (state.arena.sharding().offload != parallel::Offload::none) offloaded_.emplace(state.arena);
  state_.progress.scaler = scaler_.state();
}

void ShardedStep::state_changed() {
  scaler_.set_state(state_.progress.scaler);
  gatherer_.weights_changed();
}

void ShardedStep::with_model_weights(const std::function<void(nn::UnitExecutor&)>& use) {
  const at::NoGradGuard no_grad;
  const bool averaged = !state_.ema.empty();
  if (averaged) swap_in_average();
  use(gatherer_);
  if (averaged) swap_in_average();
  gatherer_.take_exposed_seconds();  // not the next step's
}

/// In place, so that it takes no memory: a second call undoes the first.
void ShardedStep::swap_in_average() {
  swap_values(state_.arena.master(), state_.ema.front());
  state_.arena.refresh_working();
  gatherer_.weights_changed();
}

bool ShardedStep::accumulate(const ForwardBackward& forward_backward, const Interruption& interrupted) {
  const double loss_factor = scaler_.scale() / static_cast<double>(rules_.layout.global_size);
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
  if (on_phase_) on_phase_(comm::Phase::gradients);
  parts_.enter(StepPart::reduction);
  reducer_->finalize();
  return true;
}

UpdateOutcome ShardedStep::update(std::span<double> sums) {
  if (on_phase_) on_phase_(comm::Phase::update);
  parts_.enter(StepPart::optimizer);
  UpdateOutcome outcome;
  if (offloaded_) offloaded_->start();
  outcome.gradient_norm = agree(sums) / scaler_.scale();
  outcome.learning_rate = optim::learning_rate(rules_.lr_schedule, rules_.optimizer.learning_rate,
                                               state_.progress.applied_updates, rules_.total_steps);
  apply(outcome.gradient_norm, outcome.learning_rate);
  gatherer_.weights_changed();
  parts_.enter(StepPart::other);
  const int64_t every = rules_.compare_replicas_every;
  if (every > 0 && state_.progress.step % every == 0) compare_replicas(state_, world_);
  return outcome;
}

/// One small reduction per step: `sums` and, where each rank has a share of the gradient, its squares are summed over
/// the ranks. Returns the norm of the whole gradient; one that is not finite anywhere is infinite everywhere.
double ShardedStep::agree(std::span<double> sums) {
  const parallel::ParameterArena& arena = state_.arena;
  const bool whole = arena.sharding().parts == 1 || rules_.reproducible;
  double squares = 0.0;
  if (whole) {
    squares = sum_of_squares(arena.gradient());
  } else {
    for (const at::Tensor& piece : arena.gradient_pieces()) squares += sum_of_squares(piece);
  }
  const bool finite = std::isfinite(squares);
  const bool own_finite = std::ranges::all_of(sums, [](double sum) { return std::isfinite(sum); });
  std::vector<double> row(sums.begin(), sums.end());
  row.push_back(!whole && finite ? squares / static_cast<double>(rules_.sizes.replicate) : 0.0);
  row.push_back(finite ? 0.0 : 1.0);
  parts_.enter(StepPart::reduction);
  if (rules_.reproducible) {
    tree_all_reduce(world_, row);
  } else {
    comm::all_reduce(world_, row, comm::ReduceOp::sum);
  }
  parts_.enter(StepPart::optimizer);
  std::copy_n(row.begin(), sums.size(), sums.begin());
  if (row.back() > 0.0) {
    note_odd_ranks(own_finite);
    return std::numeric_limits<double>::infinity();
  }
  return std::sqrt(whole ? squares : row[sums.size()]);
}

/// Where it began, as far as losses tell: a gradient's sum has spread to all ranks.
void ShardedStep::note_odd_ranks(bool own_finite) {
  std::vector<int64_t> odd;
  const std::vector<std::string> answers = comm::all_gather(world_, own_finite ? "" : "odd");
  for (std::size_t rank = 0; rank < answers.size(); ++rank) {
    if (!answers[rank].empty()) odd.push_back(static_cast<int64_t>(rank));
  }
  odd_ranks_ =
      odd.empty() ? "; the losses are finite" : fmt::format("; the loss is not on rank {}", fmt::join(odd, ", "));
}

void ShardedStep::apply(double norm, double learning_rate) {
  Progress& progress = state_.progress;
  const bool finite = std::isfinite(norm);
  if (finite) {
    ++progress.applied_updates;
    const double clip = optim::clip_coefficient(norm, rules_.optimizer.max_grad_norm);
    apply_update(state_, optim::adamw_config(rules_.optimizer), rules_.ema, learning_rate, clip / scaler_.scale(),
                 parts_, offloaded_ ? &*offloaded_ : nullptr);
  }
  ++progress.step;
  progress.images_seen += rules_.layout.global_size;
  comm::agree(world_, [&] {
    try {
      scaler_.update(!finite);
    } catch (const base::NumericsError& error) {
      throw base::NumericsError("step {}: {}{}", progress.step, error.what(), odd_ranks_);
    }
  });
  progress.scaler = scaler_.state();
}

at::Tensor ShardedStep::gather(const parallel::StateBuffer& buffer) {
  return parallel::gather_whole(state_.arena, buffer, *host_shard_, world_.rank() == 0);
}

double ShardedStep::take_exposed_seconds() { return reducer_->exposed_seconds() + gatherer_.take_exposed_seconds(); }

}  // namespace ddpm::train
