#include "train/optimizer_step.h"

#include <cmath>
#include <limits>

#include <ATen/core/grad_mode.h>

#include "comm/collectives.h"
#include "optim/clip.h"
#include "optim/lr_schedule.h"
#include "parallel/tree_reducer.h"
#include "train/batch.h"
#include "train/update.h"

namespace ddpm::train {
namespace {

std::unique_ptr<parallel::GradientReducer> make_reducer(const Config& config, parallel::ParameterArena& arena,
                                                        const parallel::DataParallelGroups& groups,
                                                        parallel::WeightGatherer& gatherer) {
  if (config.run.reproducible) return std::make_unique<parallel::TreeReducer>(arena, groups);
  auto reducer = std::make_unique<parallel::OverlappedReducer>(arena, groups, config.parallel);
  if (arena.sharding().zero_stage == 3) {
    reducer->on_segment_complete([&gatherer](std::size_t unit) { gatherer.release(unit); });
  }
  return reducer;
}

/// What one rank adds to the agreement of a step.
struct Row {
  static constexpr std::size_t kCount = LossSums::kCount + 2;
  std::array<double, kCount> values{};

  [[nodiscard]] std::span<double, LossSums::kCount> losses() { return std::span(values).first<LossSums::kCount>(); }
  [[nodiscard]] double& squares() { return values[LossSums::kCount]; }
  [[nodiscard]] double& not_finite() { return values[LossSums::kCount + 1]; }
};

/// Sums each column over the ranks on the fixed tree of optim::tree_sum.
void tree_all_reduce(comm::Communicator& world, Row& row) {
  const auto ranks = static_cast<std::size_t>(world.size());
  std::vector<double> rows(ranks * Row::kCount);
  world
      .all_gather({row.values.data(), std::ssize(row.values), base::DType::f64},
                  {rows.data(), std::ssize(rows), base::DType::f64})
      .wait();
  std::vector<double> column(ranks);
  for (std::size_t i = 0; i < Row::kCount; ++i) {
    for (std::size_t rank = 0; rank < ranks; ++rank) column[rank] = rows[rank * Row::kCount + i];
    row.values[i] = optim::tree_sum(column);
  }
}

}  // namespace

OptimizerStep::OptimizerStep(const Setup& setup, ModelState& model, comm::Communicator& world,
                             comm::Communicator& data_parallel)
    : setup_(setup),
      config_(setup.config),
      model_(model),
      world_(world),
      schedule_(config_.diffusion.scheduler),
      scaler_(config_.precision),
      gradient_groups_(data_parallel, setup.sizes),
      weight_groups_(data_parallel, setup.sizes),
      checkpointer_(parallel::parse_activation_checkpointing(config_.parallel.activation_checkpointing)),
      gatherer_(model.arena, weight_groups_, config_.parallel.overlap, &checkpointer_),
      reducer_(make_reducer(config_, model.arena, gradient_groups_, gatherer_)) {
  model_.progress.scaler = scaler_.state();
}

void OptimizerStep::state_changed() {
  scaler_.set_state(model_.progress.scaler);
  gatherer_.weights_changed();
}

void OptimizerStep::with_model_weights(const std::function<void(nn::UnitExecutor&)>& use) {
  const at::NoGradGuard no_grad;
  const bool averaged = !model_.ema.empty();
  if (averaged) swap_in_average();
  use(gatherer_);
  if (averaged) swap_in_average();
  gatherer_.take_exposed_seconds();  // not the next step's
}

/// In place, so that it takes no memory: a second call undoes the first.
void OptimizerStep::swap_in_average() {
  swap_values(model_.arena.master(), model_.ema.front());
  model_.arena.refresh_working();
  gatherer_.weights_changed();
}

StepOutcome OptimizerStep::run(data::BatchLoader& loader) {
  clock_.begin(loader.seconds_waited());
  StepOutcome outcome;
  outcome.loss_scale = scaler_.scale();
  outcome.sums = accumulate(loader);
  reducer_->finalize();
  outcome.gradient_norm = agree(outcome.sums) / outcome.loss_scale;
  update(outcome.gradient_norm, outcome.learning_rate);
  gatherer_.weights_changed();
  const double exposed = reducer_->exposed_seconds() + gatherer_.take_exposed_seconds();
  outcome.times = clock_.end(world_, loader.seconds_waited(), exposed);
  return outcome;
}

LossSums OptimizerStep::accumulate(data::BatchLoader& loader) {
  const DenoisingStep denoising{model_.unet, schedule_, config_.diffusion, static_cast<uint64_t>(config_.run.seed),
                                gatherer_};
  const double loss_factor = scaler_.scale() / static_cast<double>(setup_.layout.global_size);
  const int64_t steps = setup_.layout.accumulation_steps();
  std::vector<LossSums> sums;
  reducer_->begin_step();
  for (int64_t micro = 0; micro < steps; ++micro) {
    const data::MicroBatch batch = loader.next();
    at::Tensor x0 = normalize(batch, setup_.dataset.image(), setup_.dataset.info().normalization, setup_.device);
    if (config_.data.horizontal_flip) x0 = random_horizontal_flip(x0, batch, denoising.seed);
    reducer_->begin_micro_batch(micro + 1 == steps);
    sums.push_back(denoising.forward_backward(batch, x0, label_tensor(batch, setup_.device), loss_factor));
    reducer_->end_micro_batch();
    gatherer_.release_all();
  }
  return tree_sum(sums);
}

/// One small reduction per step: losses and, where each rank has a share of the gradient, its squares are summed over
/// the ranks. Returns the norm of the whole gradient; one that is not finite anywhere is infinite everywhere.
double OptimizerStep::agree(LossSums& sums) {
  const parallel::ParameterArena& arena = model_.arena;
  const bool whole = arena.sharding().parts == 1 || config_.run.reproducible;
  double squares = 0.0;
  if (whole) {
    squares = sum_of_squares(arena.gradient());
  } else {
    for (const at::Tensor& piece : arena.gradient_pieces()) squares += sum_of_squares(piece);
  }
  Row row;
  sums.pack(row.losses());
  row.not_finite() = std::isfinite(squares) ? 0.0 : 1.0;
  if (!whole && std::isfinite(squares)) row.squares() = squares / static_cast<double>(setup_.sizes.replicate);
  if (config_.run.reproducible) {
    tree_all_reduce(world_, row);
  } else {
    comm::all_reduce(world_, row.values, comm::ReduceOp::sum);
  }
  sums.unpack(row.losses());
  if (row.not_finite() > 0.0) return std::numeric_limits<double>::infinity();
  return std::sqrt(whole ? squares : row.squares());
}

/// Counts the step and, if the gradient is finite, changes the weights.
void OptimizerStep::update(double norm, double& learning_rate) {
  Progress& progress = model_.progress;
  const bool finite = std::isfinite(norm);
  learning_rate = optim::learning_rate(config_.lr_schedule, config_.optimizer.learning_rate, progress.applied_updates,
                                       setup_.total_steps);
  if (finite) {
    ++progress.applied_updates;
    const double scale = optim::clip_coefficient(norm, config_.optimizer.max_grad_norm) / scaler_.scale();
    apply_update(model_, optim::adamw_config(config_.optimizer), config_.ema, learning_rate, scale);
  }
  ++progress.step;
  progress.images_seen += setup_.layout.global_size;
  comm::agree(world_, [&] { scaler_.update(!finite); });
  progress.scaler = scaler_.state();
}

}  // namespace ddpm::train
