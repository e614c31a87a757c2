// Everything about an optimizer step that stays the same over a run.
#pragma once

#include <cstdint>

#include "layout/batch_layout.h"
#include "layout/mesh.h"
#include "layout/parallelism.h"
#include "optim/adamw.h"
#include "optim/ema.h"
#include "optim/loss_scaler.h"
#include "optim/lr_schedule.h"
#include "parallel/config.h"

namespace ddpm::engine {

struct StepRules {
  layout::Parallelism parallelism;
  layout::Mesh mesh;           ///< the ranks as `parallelism` arranges them
  layout::BatchLayout layout;  ///< how `parallelism` deals the batch to the ranks of `mesh`
  int64_t total_steps = 0;     ///< steps of the run, which the learning rate follows
  bool overlap = true;         ///< parallel.overlap
  parallel::OuterConfig outer = {};
  optim::OptimizerConfig optimizer = {};
  optim::LrScheduleConfig lr_schedule = {};
  optim::EmaConfig ema = {};
  optim::PrecisionConfig precision = {};
  int64_t skip_nonfinite = 0;
  int64_t compare_replicas_every = 0;
  /// DeviceUpdate on host memory too: for steps that are recorded, and in tests as the twin of a GPU's.
  bool device_update = false;
};

/// Images of which an update's gradient is the mean.
int64_t images_per_update(const StepRules& rules);

/// The learning rate of the update that follows `applied` ones.
double learning_rate_of(const StepRules& rules, int64_t applied);

}  // namespace ddpm::engine
