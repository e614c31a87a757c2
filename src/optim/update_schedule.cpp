#include "optim/update_schedule.h"

#include <algorithm>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include "base/check.h"
#include "optim/update_record.h"

namespace ddpm::optim {
namespace {

/// Updates whose numbers are in device memory. The host may be behind the device by half of it.
constexpr int64_t kRows = 256;

}  // namespace

UpdateSchedule::UpdateSchedule(const OptimizerConfig& optimizer, const LrScheduleConfig& lr_schedule,
                               const EmaConfig& ema, int64_t total_updates, at::Device device)
    : optimizer_(optimizer), lr_schedule_(lr_schedule), ema_(ema), total_updates_(total_updates) {
  const int64_t width = kScalarsSize - 1 + static_cast<int64_t>(ema.count());
  rows_ = at::empty({kRows, width}, at::TensorOptions().dtype(at::kFloat).device(device));
}

void UpdateSchedule::start(int64_t applied) {
  end_ = applied;
  for (int half = 0; half < 2; ++half) fill(end_, kRows / 2);
}

void UpdateSchedule::advance(int64_t applied) {
  DDPM_CHECK(end_ - kRows <= applied && applied < end_, "update {} of {} to {}", applied, end_ - kRows, end_);
  if (applied >= end_ - kRows / 2) fill(end_, kRows / 2);
}

void UpdateSchedule::fill(int64_t first, int64_t count) {
  const at::NoGradGuard no_grad;
  const int64_t width = rows_.size(1);
  const at::Tensor host =
      at::empty({count, width}, at::TensorOptions().dtype(at::kFloat).pinned_memory(!rows_.is_cpu()));
  auto* row = host.mutable_data_ptr<float>();
  for (int64_t update = first; update < first + count; ++update, row += width) {
    const AdamWStep step{.learning_rate = learning_rate(lr_schedule_, optimizer_.learning_rate, update, total_updates_),
                         .applied_step = update + 1};
    *reinterpret_cast<AdamWScalars*>(row) = adamw_scalars(adamw_config(optimizer_), step);
    for (std::size_t i = 0; i < ema_.count(); ++i) {
      row[kScalarsSize - 1 + static_cast<int64_t>(i)] = static_cast<float>(1.0 - ema_decay(ema_, i, update + 1));
    }
  }
  // Wherever it starts, a half may go beyond the last row.
  for (int64_t done = 0; done < count;) {
    const int64_t at_row = (first + done) % kRows;
    const int64_t fits = std::min(count - done, kRows - at_row);
    rows_.narrow(0, at_row, fits).copy_(host.narrow(0, done, fits), /*non_blocking=*/true);
    done += fits;
  }
  end_ = first + count;
}

}  // namespace ddpm::optim
