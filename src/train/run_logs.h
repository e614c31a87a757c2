// What a run writes while it trains: RUN/metrics.jsonl, metrics.csv and events.
//
// Written by rank 0 only; makes no collective call. Failures throw base::OutputError.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>

#include "base/file_system.h"
#include "base/log.h"
#include "config/schema.h"
#include "observe/csv_log.h"
#include "observe/event_writer.h"
#include "observe/metrics_log.h"
#include "run/run_folder.h"

namespace ddpm::train {

class RunLogs {
 public:
  /// Nothing is read or created before begin(). `run` outlives this object.
  RunLogs(base::FileSystem& files, run::RunFolder& run, const base::Logger& log);

  struct Start {
    int64_t step = 0;  ///< from which training continues
    bool tensorboard = false;
    bool csv = false;
    std::string host;  ///< a part of the name of the file for TensorBoard
  };
  /// Cuts back to start.step what is there, the grids in RUN/samples included. TensorBoard is told the values of
  /// `configuration`.
  void begin(const Start& start, const config::Schema& configuration);
  /// Named values that would make the line too long to be read back are left out of metrics.jsonl and metrics.csv, and
  /// the log says so; TensorBoard gets them all.
  void write(const observe::StepMetrics& metrics, std::span<const observe::Picture> pictures);
  /// On return all that was written is on disk: called before a checkpoint of `step` commits.
  void sync(int64_t step);

 private:
  [[nodiscard]] observe::StepMetrics shortened(const observe::StepMetrics& metrics);
  void renew_displaced(int64_t step);
  void renew_table(int64_t step);
  template <typename File>
  void renew(File& file, const base::Path& path, std::string_view what, int64_t step);

  base::FileSystem& files_;
  run::RunFolder& run_;
  const base::Logger& log_;
  observe::MetricsLog metrics_;
  std::optional<observe::CsvLog> table_;
  std::optional<observe::EventWriter> events_;
  std::set<std::string> left_out_;  ///< what the log has told of already
};

}  // namespace ddpm::train
