// What a run writes while it trains: RUN/metrics.jsonl and RUN/events.
//
// Written by rank 0 only; makes no collective call. Failures throw base::OutputError.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/file_system.h"
#include "base/log.h"
#include "observe/event_writer.h"
#include "observe/metrics_log.h"
#include "run/run_folder.h"

namespace ddpm::train {

class RunLogs {
 public:
  /// Nothing is read or created before begin(). `run` outlives this object.
  RunLogs(base::FileSystem& files, run::RunFolder& run, const base::Logger& log);

  /// Cuts metrics.jsonl back to `step`, from which training continues. `host` is a part of the name of the file for
  /// TensorBoard, which is written if `tensorboard` says so.
  void begin(int64_t step, bool tensorboard, const std::string& host);
  void write(const observe::StepMetrics& metrics);
  /// On return all that was written is on disk: called before a checkpoint of `step` commits.
  void sync(int64_t step);

 private:
  void renew_displaced(int64_t step);

  base::FileSystem& files_;
  run::RunFolder& run_;
  const base::Logger& log_;
  observe::MetricsLog metrics_;
  std::optional<observe::EventWriter> events_;
};

}  // namespace ddpm::train
