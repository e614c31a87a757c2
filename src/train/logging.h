// Reports a run's steps in RUN/metrics.jsonl and metrics.csv, as events for TensorBoard, in a file of each rank, and as
// progress on the terminal.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <c10/core/Device.h>

#include "config/schema.h"
#include "engine/progress.h"
#include "observe/progress_bar.h"
#include "run/run_folder.h"
#include "run/runtime.h"
#include "train/callback.h"
#include "train/config.h"
#include "train/data_history.h"
#include "train/rank_log.h"
#include "train/run_logs.h"

namespace ddpm::train {

/// Writes the metrics of every logging.every_steps-th step, of the first, the last, and each that was validated.
class Logging final : public Callback {
 public:
  /// `progress` counts the run's steps, which are computed on `device`; `schema` holds the run's configuration.
  /// Everything outlives this object.
  Logging(const observe::LoggingConfig& config, const config::Schema& schema, int64_t global_size,
          const engine::Progress& progress, c10::Device device, run::RunFolder& folder, const run::Runtime& runtime);
  /// From now on the epoch is told: passes over the sets of `history`, which outlives this object and has one at least.
  void count_epochs(const std::vector<DataPeriod>& history) { history_ = &history; }
  /// The run continues from progress.step: later metrics are cut off. Collective.
  void begin();

  [[nodiscard]] bool due(const FinishedStep& step) const override;
  [[nodiscard]] bool reads_state() const override { return false; }
  void run(FinishedStep& step) override;
  void write(checkpoint::SaveRequest& request) override;
  void close() override { rank_log_.reset(); }

 private:
  [[nodiscard]] observe::StepMetrics metrics_of(const FinishedStep& step) const;
  void note_memory(observe::StepMetrics& metrics) const;

  const observe::LoggingConfig& config_;
  const config::Schema& schema_;
  int64_t global_size_;
  const std::vector<DataPeriod>* history_ = nullptr;  ///< null: the epoch is not told
  const engine::Progress& progress_;
  c10::Device device_;
  comm::Communicator& world_;
  std::string host_;
  run::RunFolder& folder_;
  const run::Runtime& runtime_;
  RunLogs logs_;
  std::optional<RankLog> rank_log_;
};

/// Draws the progress bar.
class ProgressDisplay final : public Callback {
 public:
  /// `progress` counts the run's steps, and outlives this object.
  ProgressDisplay(const observe::LoggingConfig& config, int64_t total_steps, int64_t global_size,
                  const engine::Progress& progress, const base::Logger& log);
  /// Time counts from here.
  void begin();

  [[nodiscard]] bool due(const FinishedStep& /*step*/) const override { return bar_.has_value(); }
  [[nodiscard]] bool reads_state() const override { return false; }
  void run(FinishedStep& step) override { bar_->update(step.step, step.result.loss); }
  void close() override { bar_.reset(); }

 private:
  const observe::LoggingConfig& config_;
  int64_t total_steps_;
  int64_t global_size_;
  const engine::Progress& progress_;
  const base::Logger& log_;
  std::optional<observe::ProgressBar> bar_;
};

}  // namespace ddpm::train
