// The update of state in device memory: everything is launched before the host learns anything (optim/device_update.h).
//
// Between steps, loss scale and counters are on the device (optim::UpdateRecord); the host's, of which checkpoints and
// log lines are made, go through the same transitions afterwards, from what finish() read back. Averages are updated in
// the same pass as the weights: their time counts as the optimizer's.
#pragma once

#include <span>

#include <ATen/core/Tensor.h>

#include "optim/update_schedule.h"
#include "parallel/parameter_arena.h"
#include "train/update_engine.h"

namespace ddpm::train {

class DeviceUpdate final : public UpdateEngine {
 public:
  explicit DeviceUpdate(const UpdateContext& context);

  void progress_changed() override;
  void start(std::span<const double> sums) override;
  double finish(std::span<double> sums) override;

 private:
  void send_record(std::span<const double> sums);
  void sum_over_ranks();

  UpdateContext context_;
  optim::UpdateSchedule schedule_;
  parallel::StateBuffer averages_;  // the pieces of the first, then those of the next
  parallel::StateBuffer working_;   // empty where they are the master weights
  at::Tensor scalars_;
  at::Tensor record_;       // optim::UpdateRecord, then the caller's sums
  at::Tensor host_record_;  // pinned
  bool stale_ = true;       // the device does not know the host's counters yet
};

}  // namespace ddpm::train
