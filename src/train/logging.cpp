#include "train/logging.h"

#include "base/terminal.h"
#include "comm/collectives.h"
#include "device/peak_memory.h"

namespace ddpm::train {

Logging::Logging(const observe::LoggingConfig& config, int64_t global_size, const engine::Progress& progress,
                 c10::Device device, run::RunFolder& folder, const run::Runtime& runtime)
    : config_(config),
      global_size_(global_size),
      progress_(progress),
      device_(device),
      world_(runtime.session.world()),
      host_(runtime.session.host_name()),
      logs_(runtime.files, folder, runtime.log) {}

void Logging::begin() {
  comm::do_on_root(world_, [this] { logs_.begin(progress_.step, config_.tensorboard, host_); });
}

bool Logging::due(const FinishedStep& step) const {
  return step.step % config_.every_steps == 0 || step.step == 1 || step.last || step.validated;
}

void Logging::run(FinishedStep& step) {
  const observe::StepMetrics metrics = metrics_of(step);
  comm::do_on_root(world_, [&] { logs_.write(metrics); });
}

/// It is collective, since it finds the highest memory of any rank.
observe::StepMetrics Logging::metrics_of(const FinishedStep& step) const {
  const StepResult& result = step.result;
  observe::StepMetrics metrics;
  metrics.step = step.step;
  metrics.images_seen = progress_.images_seen;
  metrics.loss = result.loss;
  metrics.learning_rate = result.learning_rate;
  metrics.grad_norm = result.gradient_norm;
  metrics.loss_scale = result.loss_scale;
  metrics.seconds_per_step = result.times.seconds;
  metrics.images_per_second = static_cast<double>(global_size_) / result.times.seconds;
  metrics.data_wait_fraction = result.times.data_wait / result.times.seconds;
  metrics.comm_wait_fraction = result.times.comm_wait / result.times.seconds;
  metrics.peak_memory_bytes = comm::all_reduce(world_, device::peak_memory_bytes(device_), comm::ReduceOp::max);
  metrics.loss_quartiles = result.loss_quartiles;
  if (step.validated) metrics.validation_loss = step.validated->loss;
  metrics.own = step.own;
  return metrics;
}

void Logging::write(checkpoint::SaveRequest& request) {
  comm::do_on_root(world_, [&] { logs_.sync(request.step); });
}

ProgressDisplay::ProgressDisplay(const observe::LoggingConfig& config, int64_t total_steps, int64_t global_size,
                                 const engine::Progress& progress, const base::Logger& log)
    : config_(config), total_steps_(total_steps), global_size_(global_size), progress_(progress), log_(log) {}

void ProgressDisplay::begin() {
  bar_.emplace(observe::progress_style(config_.progress, log_.speaks(), base::stderr_is_terminal()),
               observe::ProgressBar::Options{
                   .label = "train", .first = progress_.step, .total = total_steps_, .images_per_unit = global_size_});
}

}  // namespace ddpm::train
