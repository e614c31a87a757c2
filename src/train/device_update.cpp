#include "train/device_update.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include "base/check.h"
#include "optim/device_update.h"
#include "parallel/tensor_buffer.h"

namespace ddpm::train {
namespace {

at::TensorOptions doubles_on(at::Device device) { return at::TensorOptions().dtype(at::kDouble).device(device); }

optim::UpdateRecord& record_in(const at::Tensor& host) {
  return *reinterpret_cast<optim::UpdateRecord*>(host.mutable_data_ptr<double>());
}

/// The host follows the device by the same transitions; if it ever did not, checkpoints would be wrong.
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
      schedule_(context.rules.optimizer, context.rules.lr_schedule, context.rules.ema, context.rules.total_steps,
                context.state.arena.gradient().device()) {
  const TrainedState& state = context_.state;
  for (const parallel::StateBuffer& average : state.ema) {
    averages_.insert(averages_.end(), average.begin(), average.end());
  }
  if (state.arena.mixed_precision()) working_ = state.arena.working_pieces();
  const auto averages = static_cast<int64_t>(state.ema.size());
  scalars_ = at::zeros({optim::kScalarsSize + averages}, state.arena.gradient().options());
}

void DeviceUpdate::progress_changed() {
  schedule_.start(context_.state.progress.applied_updates);
  stale_ = true;
}

/// The sums, and all the rest where the device does not know it.
void DeviceUpdate::send_record(std::span<const double> sums) {
  const int64_t size = optim::kRecordSize + std::ssize(sums);
  if (stale_) {
    const at::Device device = context_.state.arena.gradient().device();
    host_record_ = at::zeros({size}, doubles_on(at::kCPU).pinned_memory(!device.is_cpu()));
    record_ = at::empty({size}, doubles_on(device));
    const optim::LossScaleState& scaler = context_.scaler.state();
    optim::UpdateRecord& record = record_in(host_record_);
    record.scale = scaler.scale;
    record.growth_tracker = static_cast<double>(scaler.growth_tracker);
    record.consecutive_skips = static_cast<double>(scaler.consecutive_skips);
    record.applied_updates = static_cast<double>(context_.state.progress.applied_updates);
  }
  DDPM_CHECK(record_.numel() == size, "{} sums, and {} before", std::ssize(sums), record_.numel() - optim::kRecordSize);
  expect_in_step(record_in(host_record_), context_.scaler.state(), context_.state.progress.applied_updates);
  const int64_t first = stale_ ? 0 : optim::kRecordSize;
  std::ranges::copy(sums, host_record_.mutable_data_ptr<double>() + optim::kRecordSize);
  record_.narrow(0, first, size - first).copy_(host_record_.narrow(0, first, size - first), /*non_blocking=*/true);
  stale_ = false;
}

void DeviceUpdate::start(std::span<const double> sums) {
  const at::NoGradGuard no_grad;
  const TrainedState& state = context_.state;
  const StepRules& rules = context_.rules;
  const bool whole = has_whole_norm(context_);
  send_record(sums);
  schedule_.advance(state.progress.applied_updates);
  const at::Tensor squares = record_.narrow(0, optim::kOwnSquares, optim::kRecordSize - optim::kOwnSquares);
  if (whole) {
    optim::sum_of_squares_(state.arena.gradient(), 1, squares);
  } else {
    optim::sum_of_squares_(state.arena.gradient_pieces(), rules.sizes.replicate, squares);
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
  const at::Tensor row = record_.narrow(0, optim::kSummed, record_.numel() - optim::kSummed);
  if (!context_.rules.reproducible) {
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

double DeviceUpdate::finish(std::span<double> sums) {
  const at::NoGradGuard no_grad;
  host_record_.copy_(record_);  // the only wait
  std::copy_n(host_record_.const_data_ptr<double>() + optim::kRecordSize, sums.size(), sums.begin());
  const double norm = record_in(host_record_).norm;
  if (std::isfinite(norm)) ++context_.state.progress.applied_updates;
  return norm;
}

}  // namespace ddpm::train
