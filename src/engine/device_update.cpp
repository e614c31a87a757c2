#include "engine/device_update.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <span>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include "base/check.h"
#include "base/pulse.h"
#include "optim/update_operators.h"
#include "parallel/tensor_buffer.h"

namespace ddpm::engine {
namespace {

optim::UpdateRecord& record_in(const at::Tensor& host) {
  return *reinterpret_cast<optim::UpdateRecord*>(host.mutable_data_ptr<double>());
}

/// The averages that follow each update.
std::span<const parallel::StateBuffer> averages_of(const TrainingState& state) {
  return state.outer ? std::span<const parallel::StateBuffer>() : state.ema;
}

optim::EmaConfig ema_of(const UpdateContext& context) {
  optim::EmaConfig ema = context.rules.ema;
  ema.enabled = ema.enabled && !context.state.outer;
  return ema;
}

/// The host follows the device by equal transitions; if they ever differed, checkpoints would be wrong.
void expect_in_step(const optim::UpdateRecord& device, const optim::LossScaleState& host, int64_t applied) {
  DDPM_CHECK(device.scale == host.scale && static_cast<int64_t>(device.growth_tracker) == host.growth_tracker &&
                 static_cast<int64_t>(device.consecutive_skips) == host.consecutive_skips &&
                 static_cast<int64_t>(device.applied_updates) == applied,
             "the device has loss scale {} and {} updates, the host {} and {}", device.scale, device.applied_updates,
             host.scale, applied);
}

}  // namespace

DeviceUpdate::DeviceUpdate(const UpdateContext& context)
    : context_(context),
      schedule_(context.rules.optimizer, context.rules.lr_schedule, ema_of(context), context.rules.total_steps,
                context.state.arena.gradient().device()),
      copies_(context.state.arena.gradient().device()) {
  const TrainingState& state = context_.state;
  for (const parallel::StateBuffer& average : averages_of(state)) {
    averages_.insert(averages_.end(), average.begin(), average.end());
  }
  if (state.arena.mixed_precision()) working_ = state.arena.working_pieces();
  const std::ptrdiff_t averages = std::ssize(averages_of(state));
  const at::TensorOptions device = state.arena.gradient().options();
  scalars_ = at::zeros({optim::kScalarsSize + averages}, device);
  const int64_t size = optim::kRecordSize + 2 * context_.sizes.losses + context_.sizes.votes;
  record_ = at::zeros({size}, device.dtype(at::kDouble));
  const auto pinned = at::TensorOptions(at::kDouble).pinned_memory(!record_.is_cpu());
  for (StepInFlight& slot : slots_) {
    slot.sent = at::zeros({size}, pinned);
    slot.home = at::zeros({size}, pinned);
  }
}

void DeviceUpdate::progress_changed() {
  DDPM_CHECK(submitted_ == finished_, "{} steps are under way", submitted_ - finished_);
  schedule_.start(context_.state.progress.applied_updates);
  last_.reset();
  stale_ = true;
}

void DeviceUpdate::begin() {
  DDPM_CHECK(submitted_ - finished_ < most_under_way(), "{} steps are under way", submitted_ - finished_);
  if (stale_) {
    send_counters();
  } else {
    schedule_.advance(context_.state.progress.applied_updates);
  }
  stale_ = false;
}

/// Sends the host's counters to a device that does not have them yet.
void DeviceUpdate::send_counters() {
  const optim::LossScaleState& scaler = context_.scaler.state();
  const at::Tensor& counters = slot_of(submitted_).sent;
  optim::UpdateRecord& record = record_in(counters);
  record = {};
  record.scale = scaler.scale;
  record.growth_tracker = static_cast<double>(scaler.growth_tracker);
  record.consecutive_skips = static_cast<double>(scaler.consecutive_skips);
  record.applied_updates = static_cast<double>(context_.state.progress.applied_updates);
  record_.narrow(0, 0, optim::kRecordSize).copy_(counters.narrow(0, 0, optim::kRecordSize), /*non_blocking=*/true);
}

at::Tensor DeviceUpdate::loss_factor() {
  return record_.select(0, optim::kScale).div(static_cast<double>(images_per_update(context_.rules))).to(at::kFloat);
}

void DeviceUpdate::add_sums(std::span<const double> votes) {
  DDPM_CHECK(std::ssize(votes) == context_.sizes.votes, "{} votes, not {}", votes.size(), context_.sizes.votes);
  const int64_t first = optim::kRecordSize + context_.sizes.losses;
  const at::Tensor& sent = slot_of(submitted_).sent;
  std::ranges::copy(votes, sent.mutable_data_ptr<double>() + first);
  record_.narrow(0, first, std::ssize(votes)).copy_(sent.narrow(0, first, std::ssize(votes)), /*non_blocking=*/true);
}

void DeviceUpdate::start(const at::Tensor& losses) {
  const at::NoGradGuard no_grad;
  const TrainingState& state = context_.state;
  const StepRules& rules = context_.rules;
  const bool whole = has_whole_norm(context_);
  const auto [count, votes] = context_.sizes;
  record_.narrow(0, optim::kRecordSize, count).copy_(losses);
  record_.narrow(0, optim::kRecordSize + count + votes, count).copy_(losses);
  const at::Tensor squares = record_.narrow(0, optim::kOwnSquares, optim::kRecordSize - optim::kOwnSquares);
  if (whole) {
    optim::sum_of_squares_(state.arena.gradient(), 1, squares);
  } else {
    optim::sum_of_squares_(state.arena.own_gradient_pieces(), rules.mesh.degree(layout::kReplicas), squares);
  }
  context_.parts.enter(StepPart::reduction);
  sum_over_ranks();
  context_.parts.enter(StepPart::optimizer);
  optim::begin_update_(record_, scalars_, schedule_.rows(),
                       {whole, rules.optimizer.max_grad_norm, context_.scaler.rule()});
  optim::flat_update_(scalars_, {.parameters = state.arena.master(),
                                 .gradients = state.arena.gradient_pieces(),
                                 .exp_avg = state.exp_avg,
                                 .exp_avg_sq = state.exp_avg_sq,
                                 .averages = averages_,
                                 .working = working_});
}

/// One small reduction per step, on the device: the gradient's communicator is free after the reducer's finalize().
void DeviceUpdate::sum_over_ranks() {
  comm::Communicator& all = context_.groups.all();
  if (all.size() == 1) return;
  const int64_t end = optim::kRecordSize + context_.sizes.losses + context_.sizes.votes;
  at::Tensor row = record_.narrow(0, optim::kSummed, end - optim::kSummed);
  if (context_.state.outer) {  // each island has a norm of its own; whether steps apply, all agree on
    context_.groups.island().all_reduce(parallel::buffer_of(row.narrow(0, 0, 1)), comm::ReduceOp::sum).wait();
    row = row.narrow(0, 1, row.size(0) - 1);
  }
  if (!context_.rules.parallelism.reproducible) {
    all.all_reduce(parallel::buffer_of(row), comm::ReduceOp::sum).wait();
    return;
  }
  at::Tensor rows = at::empty({all.size(), row.numel()}, row.options());
  all.all_gather(parallel::buffer_of(row), parallel::buffer_of(rows)).wait();
  while (rows.size(0) > 1) {  // optim::tree_sum of each column; reproducible runs have a power of two of ranks
    rows = rows.slice(0, 0, std::nullopt, 2) + rows.slice(0, 1, std::nullopt, 2);
  }
  row.copy_(rows[0]);
}

void DeviceUpdate::submit() {
  StepInFlight& slot = slot_of(submitted_++);
  slot.home.copy_(record_, /*non_blocking=*/true);
  slot.copied = copies_.mark_caller();
}

UpdateVerdict DeviceUpdate::finish(std::span<double> sums) {
  DDPM_CHECK(finished_ < submitted_, "no step is under way");
  if (last_) expect_in_step(*last_, context_.scaler.state(), context_.state.progress.applied_updates);
  StepInFlight& slot = slot_of(finished_++);
  {
    const base::Waiting waiting;  // for the device, which may itself wait for other ranks
    slot.copied.wait();
  }
  const auto* numbers = slot.home.const_data_ptr<double>() + optim::kRecordSize;
  std::copy_n(numbers, sums.size(), sums.begin());
  last_ = record_in(slot.home);
  const double learning_rate = learning_rate_of(context_.rules, context_.state.progress.applied_updates);
  if (std::isfinite(last_->norm)) ++context_.state.progress.applied_updates;
  const std::span own(numbers + sums.size(), static_cast<std::size_t>(context_.sizes.losses));
  return {last_->norm, learning_rate, std::ranges::all_of(own, [](double loss) { return std::isfinite(loss); })};
}

}  // namespace ddpm::engine
