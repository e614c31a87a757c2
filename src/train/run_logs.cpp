#include "train/run_logs.h"

#include "base/clock.h"
#include "observe/picture_files.h"
#include "train/hyperparameters.h"

namespace ddpm::train {

RunLogs::RunLogs(base::FileSystem& files, run::RunFolder& run, const base::Logger& log)
    : files_(files), run_(run), log_(log), metrics_(files, run.metrics()) {}

void RunLogs::begin(const Start& start, const config::Schema& configuration) {
  observe::cut_back(files_, run_.metrics(), start.step);
  observe::cut_back_pictures(files_, run_.samples(), start.step);
  if (start.csv || files_.exists(run_.table())) {
    table_.emplace(files_, run_.table());
    table_->begin(observe::read_metrics(files_, run_.metrics()));
  }
  if (start.tensorboard || files_.exists(run_.events())) {
    events_.emplace(files_, run_.events(), start.host, start.step + 1, base::unix_seconds);
    events_->write_configuration(hyperparameters_of(configuration), run_.path().filename().string(),
                                 configuration_markdown(configuration));
  }
  // A log that is switched off now has been cut back to this start's first step, and gets nothing of its steps.
  if (!start.csv) table_.reset();
  if (!start.tensorboard) events_.reset();
}

void RunLogs::write(const observe::StepMetrics& metrics, std::span<const observe::Picture> pictures) {
  renew_displaced(metrics.step);
  const observe::StepMetrics rows = shortened(metrics);
  metrics_.append(rows);
  if (table_) table_->append(rows);
  if (!events_) return;
  events_->write(metrics.step, pictures);
  events_->write(metrics.step, observe::scalars_of(metrics));
}

/// `metrics` as they fit into a line.
observe::StepMetrics RunLogs::shortened(const observe::StepMetrics& metrics) {
  observe::StepMetrics rows = metrics;
  for (const std::string& key : observe::fit_into_line(rows)) {
    if (!left_out_.insert(key).second) continue;
    log_.warn(
        "{}: the line of step {} would have more than {} bytes, which is too long to be read back: \"{}\" is left "
        "out of it, and of each later line that would be as long",
        run_.metrics().string(), metrics.step, observe::kMostLineBytes, key);
  }
  return rows;
}

void RunLogs::sync(int64_t step) {
  renew_displaced(step);
  metrics_.sync();
  if (table_) table_->sync();
  if (events_) events_->sync();
}

/// A file that was removed or replaced is still open, and nobody would ever read its new lines. They go into the file
/// that now has the name if the folder is still this run's; otherwise the run ends.
void RunLogs::renew_displaced(int64_t step) {
  renew(metrics_, run_.metrics(), "the file", step);
  if (table_) renew_table(step);
  if (events_) renew(*events_, run_.events(), "the file of this run in it", step);
}

/// Whatever has its name by then need not have its columns, nor a first line at all.
void RunLogs::renew_table(int64_t step) {
  if (!table_->displaced()) return;
  run_.expect_owned();
  log_.warn(
      "{}: the file was removed or replaced during training, as seen at step {}: it is made anew of the lines of "
      "metrics.jsonl that are there",
      run_.table().string(), step);
  table_->begin(observe::read_metrics(files_, run_.metrics()));
}

template <typename File>
void RunLogs::renew(File& file, const base::Path& path, std::string_view what, int64_t step) {
  if (!file.displaced()) return;
  run_.expect_owned();
  log_.warn(
      "{}: {} was removed or replaced during training, as seen at step {}: lines that only the removed file held are "
      "lost; later lines go into the file that now has the name",
      path.string(), what, step);
  file.reopen();
}

}  // namespace ddpm::train
