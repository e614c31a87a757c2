#include "train/run_logs.h"

namespace ddpm::train {

RunLogs::RunLogs(base::FileSystem& files, run::RunFolder& run, const base::Logger& log)
    : files_(files), run_(run), log_(log), metrics_(files, run.metrics()) {}

void RunLogs::begin(int64_t step, bool tensorboard, const std::string& host) {
  observe::cut_back(files_, run_.metrics(), step);
  if (tensorboard) events_.emplace(files_, run_.events(), host, step + 1, observe::wall_clock());
}

void RunLogs::write(const observe::StepMetrics& metrics) {
  renew_displaced(metrics.step);
  metrics_.append(metrics);
  if (events_) events_->write(metrics.step, observe::scalars_of(metrics));
}

void RunLogs::sync(int64_t step) {
  renew_displaced(step);
  metrics_.sync();
  if (events_) events_->sync();
}

/// A file that was removed or replaced is still open, and nobody would ever read its new lines. They go into the file
/// that now has the name if the folder is still this run's; otherwise the run ends.
void RunLogs::renew_displaced(int64_t step) {
  const bool metrics = metrics_.displaced();
  const bool events = events_ && events_->displaced();
  if (!metrics && !events) return;
  run_.expect_owned();
  const auto warn = [&](const base::Path& path, std::string_view file) {
    log_.warn(
        "{}: {} was removed or replaced during training, as seen at step {}: lines that only the removed file held are "
        "lost; later lines go into the file that now has the name",
        path.string(), file, step);
  };
  if (metrics) {
    warn(run_.metrics(), "the file");
    metrics_.reopen();
  }
  if (events) {
    warn(run_.events(), "the file of this run in it");
    events_->reopen();
  }
}

}  // namespace ddpm::train
