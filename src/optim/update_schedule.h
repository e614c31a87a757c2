// What the host computes of coming updates, so that a device that is ahead of it has nothing to wait for.
#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

#include "optim/adamw.h"
#include "optim/ema.h"
#include "optim/lr_schedule.h"

namespace ddpm::optim {

/// The numbers of the next updates (ScheduleRows) in device memory, where they are ahead of what the host knows.
class UpdateSchedule {
 public:
  UpdateSchedule(const OptimizerConfig& optimizer, const LrScheduleConfig& lr_schedule, const EmaConfig& ema,
                 int64_t total_updates, at::Device device);

  /// `applied` updates are done: the next ones come from there.
  void start(int64_t applied);
  /// Follows the updates: `applied` is not less than before. When it is time, half of the rows, those of past updates,
  /// are replaced by those of coming ones.
  void advance(int64_t applied);
  [[nodiscard]] const at::Tensor& rows() const { return rows_; }

 private:
  void fill(int64_t first, int64_t count);

  OptimizerConfig optimizer_;
  LrScheduleConfig lr_schedule_;
  EmaConfig ema_;
  int64_t total_updates_;
  at::Tensor rows_;
  int64_t end_ = 0;  // rows of updates before this one are there
};

}  // namespace ddpm::optim
