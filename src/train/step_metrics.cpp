#include "train/step_metrics.h"

#include "comm/collectives.h"
#include "device/peak_memory.h"

namespace ddpm::train {

observe::StepMetrics step_metrics(const StepOutcome& outcome, const engine::Progress& progress, int64_t global_size,
                                  c10::Device device, comm::Communicator& world) {
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
  metrics.peak_memory_bytes = comm::all_reduce(world, device::peak_memory_bytes(device), comm::ReduceOp::max);
  for (std::size_t q = 0; q < 4; ++q) {
    metrics.loss_quartiles.at(q) = outcome.sums.quartile_loss.at(q) / outcome.sums.quartile_count.at(q);
  }
  return metrics;
}

}  // namespace ddpm::train
