// RUN/metrics.jsonl: one JSON object per logged optimizer step.
//
// Used by rank 0 only; makes no collective call. Failures throw base::OutputError.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/file_identity.h"
#include "base/file_system.h"

namespace ddpm::observe {

/// What is known of one optimizer step. A value that does not exist (no image fell into a quarter of the timestep
/// range) or is not finite is written as null.
struct StepMetrics {
  int64_t step = 0;         ///< the first step is 1
  int64_t images_seen = 0;  ///< since the run began, over all ranks
  double loss = 0;          ///< mean over the step's global batch
  double learning_rate = 0;
  double grad_norm = 0;  ///< of the global batch, before clipping
  double loss_scale = 1;
  double images_per_second = 0;
  double seconds_per_step = 0;
  double data_wait_fraction = 0;           ///< share of the step's time that was spent waiting for images
  double comm_wait_fraction = 0;           ///< share that was spent waiting for other ranks
  int64_t peak_memory_bytes = 0;           ///< highest so far on any rank
  std::array<double, 4> loss_quartiles{};  ///< mean loss by quarter of the timestep range, low timesteps first
  std::optional<double> validation_loss;   ///< of a validated step
};

/// `metrics` as one line of JSON, without the line's end.
std::string to_json_line(const StepMetrics& metrics);

class MetricsLog {
 public:
  /// Nothing is created before the first append.
  MetricsLog(base::FileSystem& files, base::Path path);

  /// Writes one line and flushes it to the operating system.
  void append(const StepMetrics& metrics);
  /// On return every appended line is on disk. Called before a checkpoint commits.
  void sync();

  /// Whether lines go into a file that has lost its name: it was removed, or another one took its place.
  [[nodiscard]] bool displaced() const;
  /// Lets go of that file: the next line goes into the one that has the name then, or into a new one.
  void reopen();

 private:
  base::FileSystem& files_;
  base::Path path_;
  std::unique_ptr<base::WritableFile> file_;
  std::optional<base::FileIdentity> identity_;  ///< of file_
};

/// After a checkpoint of `step` was loaded: removes from the file at `path` the lines of later steps, half-written
/// lines, and repeated steps, so that no step appears twice when training goes on. The file is replaced atomically; one
/// that is absent or needs no change is left alone.
void cut_back(base::FileSystem& files, const base::Path& path, int64_t step);

}  // namespace ddpm::observe
