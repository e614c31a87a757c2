#include "train/step_metrics.h"

#include <sys/resource.h>

#include "comm/collectives.h"

namespace ddpm::train {

int64_t peak_resident_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return int64_t{usage.ru_maxrss} * 1024;
}

observe::StepMetrics step_metrics(const StepOutcome& outcome, const engine::Progress& progress, int64_t global_size,
                                  comm::Communicator& world) {
  observe::StepMetrics metrics;
  metrics.step = progress.step;
  metrics.images_seen = progress.images_seen;
  metrics.loss = outcome.sums.loss / static_cast<double>(global_size);
  metrics.learning_rate = outcome.learning_rate;
  metrics.grad_norm = outcome.gradient_norm;
  metrics.loss_scale = outcome.loss_scale;
  metrics.seconds_per_step = outcome.times.seconds;
  metrics.images_per_second = static_cast<double>(global_size) / outcome.times.seconds;
  metrics.data_wait_fraction = outcome.times.data_wait / outcome.times.seconds;
  metrics.comm_wait_fraction = outcome.times.comm_wait / outcome.times.seconds;
  metrics.peak_memory_bytes = comm::all_reduce(world, peak_resident_bytes(), comm::ReduceOp::max);
  for (std::size_t q = 0; q < 4; ++q) {
    metrics.loss_quartiles.at(q) = outcome.sums.quartile_loss.at(q) / outcome.sums.quartile_count.at(q);
  }
  return metrics;
}

}  // namespace ddpm::train
