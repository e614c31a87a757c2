// `ddpm bench step`: how fast a configuration trains, where the time goes, and what the machine would allow.
#pragma once

#include <cstdint>
#include <string>

#include "bench/machine_limits.h"
#include "bench/spread.h"
#include "engine/part_timer.h"
#include "run/runtime.h"
#include "train/config.h"

namespace ddpm::bench {

struct StepBenchOptions {
  /// Steps that are not measured; on a GPU at least as many as come before all steps are alike, the recorded one
  /// included (engine/step_graph.h).
  int64_t warm_up = 3;
  int64_t steps = 10;  ///< measured, at least 1
};

struct StepBench {
  int64_t ranks = 1;
  int64_t threads = 1;                                                ///< threads per rank
  optim::MixedPrecision mixed_precision = optim::MixedPrecision::no;  ///< as configured
  int64_t global_size = 0;                                            ///< images of a step, on all ranks
  int64_t micro_size = 0;                                             ///< images that a rank computes at once
  int64_t warm_up = 0;                                                ///< steps before those measured
  int64_t steps = 0;                                                  ///< measured
  Spread seconds_per_step;                                            ///< time on the slowest rank
  Spread images_per_second;                                           ///< all ranks together
  engine::StepSeconds parts{};                                        ///< seconds of a step, mean over steps and ranks
  double data_wait = 0.0;  ///< seconds of a step that the slowest rank waited for images
  double comm_wait = 0.0;  ///< seconds of a step that the slowest rank waited for other ranks' gradients and weights
  double mean_comm_wait = 0.0;  ///< such seconds in the mean over steps and ranks, of the steps that gave the parts
  double image_flops = 0.0;     ///< per image, forward and backward: convolutions, linear layers, attention
  double update_bytes = 0.0;  ///< what norm, AdamW and averages must read and write in one step, on all ranks together
  int64_t parameters = 0;     ///< trained, of the whole model, whatever cuts it
  int64_t state_bytes = 0;    ///< what a rank updates, with gradients, in the mean over ranks
  int64_t peak_memory_bytes = 0;  ///< resident memory, on the rank with most
  int64_t peak_device_bytes = 0;  ///< GPU memory that LibTorch's allocator took, on the rank with most; 0 on CPUs
  MachineLimits limits;

  /// The share of the best product's rate that a step reaches.
  [[nodiscard]] double compute_fraction() const { return image_flops * images_per_second.median / limits.matrix_flops; }
  /// The share of the memory's rate that the update reaches.
  [[nodiscard]] double update_fraction() const;
};

/// Trains on the configured images for warm_up + steps steps, as `ddpm train` does, and writes nothing. Collective.
StepBench bench_step(train::Configuration& configuration, const run::Runtime& runtime, const StepBenchOptions& options);

}  // namespace ddpm::bench
