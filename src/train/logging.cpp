#include "train/logging.h"

#include <array>

#include "base/terminal.h"
#include "comm/collectives.h"
#include "device/peak_memory.h"

namespace ddpm::train {

Logging::Logging(const observe::LoggingConfig& config, const config::Schema& schema, int64_t global_size,
                 const engine::Progress& progress, c10::Device device, run::RunFolder& folder,
                 const run::Runtime& runtime)
    : config_(config),
      schema_(schema),
      global_size_(global_size),
      progress_(progress),
      device_(device),
      world_(runtime.session.world()),
      host_(runtime.session.host_name()),
      folder_(folder),
      runtime_(runtime),
      logs_(runtime.files, folder, runtime.log) {}

void Logging::begin() {
  comm::do_on_root(world_, [this] {
    logs_.begin({.step = progress_.step, .tensorboard = config_.tensorboard, .csv = config_.csv, .host = host_},
                schema_);
  });
  if (!config_.rank_files) return;
  comm::do_on_root(world_, [this] { runtime_.files.create_directories(folder_.logs()); });
  comm::agree(world_, [this] {
    rank_log_.emplace(runtime_.files, folder_.logs(), runtime_.log, runtime_.session.rank(), host_);
    rank_log_->line("info", fmt::format("rank {} of {} starts after step {}", runtime_.session.rank(),
                                        runtime_.session.size(), progress_.step));
  });
}

bool Logging::due(const FinishedStep& step) const {
  return step.step % config_.every_steps == 0 || step.step == 1 || step.last || step.validated || step.drawn;
}

void Logging::run(FinishedStep& step) {
  const observe::StepMetrics metrics = metrics_of(step);
  comm::do_on_root(world_, [&] { logs_.write(metrics, step.pictures); });
  if (!rank_log_) return;
  const engine::StepTimes& own = step.result.own_times;
  rank_log_->take("step",
                  fmt::format("{}: {:.4f} s, {:.4f} of them waiting for images, {:.4f} for other ranks; loss {:.6f}",
                              step.step, own.seconds, own.data_wait, own.comm_wait, step.result.loss));
}

/// It is collective, since it finds the highest memory of any rank.
observe::StepMetrics Logging::metrics_of(const FinishedStep& step) const {
  const engine::StepTimes& times = step.result.times;
  observe::StepMetrics metrics = step.result;
  metrics.step = step.step;
  metrics.images_seen = progress_.images_seen;
  metrics.seconds_per_step = times.seconds;
  metrics.images_per_second = static_cast<double>(global_size_) / times.seconds;
  metrics.data_wait_fraction = times.data_wait / times.seconds;
  metrics.comm_wait_fraction = times.comm_wait / times.seconds;
  note_memory(metrics);
  if (history_ != nullptr) {
    metrics.epoch = passes_of(*history_, progress_.images_seen, global_size_);
  }
  if (step.validated) metrics.validation_loss = step.validated->loss;
  return metrics;
}

/// Notes the memory of the rank that has most of each kind. Collective.
void Logging::note_memory(observe::StepMetrics& metrics) const {
  const device::MemoryUse use = device::memory_use(device_);
  std::array<int64_t, 4> most = {use.host, use.host_peak, use.device, use.device_peak};
  comm::all_reduce(world_, most, comm::ReduceOp::max);
  metrics.host_memory_bytes = most[0];
  metrics.host_peak_memory_bytes = most[1];
  metrics.peak_memory_bytes = device_.is_cpu() ? most[1] : most[3];
  if (device_.is_cpu()) return;
  metrics.device_memory_bytes = most[2];
  metrics.device_peak_memory_bytes = most[3];
}

void Logging::write(checkpoint::SaveRequest& request) {
  comm::do_on_root(world_, [&] { logs_.sync(request.step); });
}

ProgressDisplay::ProgressDisplay(const observe::LoggingConfig& config, int64_t total_steps, int64_t global_size,
                                 const engine::Progress& progress, const base::Logger& log)
    : config_(config), total_steps_(total_steps), global_size_(global_size), progress_(progress), log_(log) {}

void ProgressDisplay::begin() {
  bar_.emplace(observe::progress_style(config_.progress, log_.speaks(), base::stderr_is_terminal()),
               observe::ProgressBarOptions{
                   .label = "train", .first = progress_.step, .total = total_steps_, .images_per_unit = global_size_});
}

}  // namespace ddpm::train
