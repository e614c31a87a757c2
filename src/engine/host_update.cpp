#include "engine/host_update.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <ATen/ops/full.h>

#include "comm/collectives.h"
#include "engine/flat_passes.h"
#include "optim/clip.h"

namespace ddpm::engine {
namespace {

/// Sums each number over the ranks on the fixed tree of optim::tree_sum.
void tree_all_reduce(comm::Communicator& world, std::span<double> row) {
  const auto ranks = static_cast<std::size_t>(world.size());
  const std::vector<double> rows = comm::all_gather(world, row);
  std::vector<double> column(ranks);
  for (std::size_t i = 0; i < row.size(); ++i) {
    for (std::size_t rank = 0; rank < ranks; ++rank) column[rank] = rows[rank * row.size() + i];
    row[i] = optim::tree_sum(column);
  }
}

}  // namespace

HostUpdate::HostUpdate(const UpdateContext& context) : context_(context) {
  parallel::ParameterArena& arena = context_.state.arena;
  if (arena.sharding().offload != parallel::Offload::none) offloaded_.emplace(arena);
}

at::Tensor HostUpdate::loss_factor() {
  const auto images = static_cast<double>(images_per_update(context_.rules));
  return at::full({}, context_.scaler.scale() / images, context_.state.arena.gradient().options());
}

void HostUpdate::start(const at::Tensor& losses) {
  if (offloaded_) offloaded_->start();
  const at::Tensor own = losses.to(at::kCPU);
  const std::span numbers(own.const_data_ptr<double>(), static_cast<std::size_t>(own.numel()));
  row_.assign(numbers.begin(), numbers.end());
  row_.insert(row_.end(), votes_.begin(), votes_.end());
  verdict_.own_losses_finite = std::ranges::all_of(numbers, [](double loss) { return std::isfinite(loss); });
  verdict_.gradient_norm = agree() / context_.scaler.scale();
  const StepRules& rules = context_.rules;
  verdict_.learning_rate = learning_rate_of(rules, context_.state.progress.applied_updates);
  if (!std::isfinite(verdict_.gradient_norm)) return;
  ++context_.state.progress.applied_updates;
  const double clip = optim::clip_coefficient(verdict_.gradient_norm, rules.optimizer.max_grad_norm);
  apply_update(context_.state, optim::adamw_config(rules.optimizer), rules.ema, verdict_.learning_rate,
               clip / context_.scaler.scale(), context_.parts, offloaded_ ? &*offloaded_ : nullptr);
}

UpdateVerdict HostUpdate::finish(std::span<double> sums) {
  std::copy_n(row_.begin(), sums.size(), sums.begin());
  return verdict_;
}

/// One small reduction per step: the row and, where each rank has a share of the gradient, its squares are summed over
/// the ranks; squares of islands over their own. Returns the norm of the whole gradient; one that is not finite
/// anywhere is infinite everywhere.
double HostUpdate::agree() {
  const parallel::ParameterArena& arena = context_.state.arena;
  const bool whole = has_whole_norm(context_);
  double squares = 0.0;
  if (whole) {
    squares = sum_of_squares(arena.gradient());
  } else {
    for (const at::Tensor& piece : arena.own_gradient_pieces()) squares += sum_of_squares(piece);
  }
  const bool finite = std::isfinite(squares);
  double share = !whole && finite ? squares / static_cast<double>(context_.rules.mesh.degree(layout::kReplicas)) : 0.0;
  context_.parts.enter(StepPart::reduction);
  if (context_.island != nullptr) share = comm::all_reduce(*context_.island, share, comm::ReduceOp::sum);
  row_.push_back(share);
  row_.push_back(finite ? 0.0 : 1.0);
  if (context_.rules.parallelism.reproducible) {
    tree_all_reduce(context_.world, row_);
  } else {
    comm::all_reduce(context_.world, row_, comm::ReduceOp::sum);
  }
  context_.parts.enter(StepPart::optimizer);
  if (row_.back() > 0.0) return std::numeric_limits<double>::infinity();
  if (whole) return std::sqrt(squares);
  return std::sqrt(context_.island != nullptr ? share : row_[row_.size() - 2]);
}

}  // namespace ddpm::engine
