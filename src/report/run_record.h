// What a run folder holds for its report. A run that is being trained is read as it is at the moment.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/file_system.h"
#include "observe/metrics.h"
#include "observe/usage.h"
#include "report/evaluation.h"

namespace ddpm::report {

/// A key of the run's configuration.
struct Setting {
  std::string path = {};   ///< "optimizer.learning_rate"
  std::string value = {};  ///< as TOML
};

struct CheckpointFacts {
  int64_t step = 0;
  int64_t bytes = 0;
  double written = 0.0;      ///< seconds since 1970, by the clock that stamps the folder's files
  std::string problem = {};  ///< "": all files are there, with the sizes that the manifest says
  bool newer = false;        ///< the problem is a format of a later version: it is not damage
};

/// A picture of samples that was written during training.
struct Picture {
  int64_t step = 0;
  std::string uri = {};  ///< "data:image/png;base64,…"
};

/// Who holds the run folder.
struct LockFacts {
  std::string owner = {};  ///< "process 17 on node01, job 5", or "a run that begins" where the lock has no text yet
  double renewed = 0.0;    ///< seconds since 1970
  bool ended = false;      ///< the owner has surely ended, as far as this host can tell
};

struct RunRecord {
  std::string name = {};   ///< as the run was named on the command line; its folder's own name in place of "."
  std::string label = {};  ///< the name less the folders that all runs of a report are in, for charts
  std::vector<Setting> settings = {};
  std::vector<observe::StepMetrics> metrics = {};  ///< each of a later step than the one before
  std::optional<double> logged = {};               ///< seconds since 1970, when the last of them was written
  std::vector<observe::UsageLine> usage = {};      ///< the last line of each start
  std::vector<CheckpointFacts> checkpoints = {};   ///< the newest first
  bool saved_before = false;                       ///< RUN/LATEST says that there was a checkpoint
  std::vector<Evaluation> evaluations = {};
  std::vector<Picture> pictures = {};
  int64_t pictures_left_out = 0;
  std::optional<LockFacts> lock = {};
  bool has_model = false;
  std::vector<std::string> missing = {};  ///< what a run may have and this one has not, as sentences
  std::vector<std::string> damage = {};   ///< files and lines that cannot be read, as sentences

  /// The value of a key, or nothing.
  [[nodiscard]] std::optional<std::string> setting(std::string_view path) const;
  /// The value of a key that is an integer, or nothing.
  [[nodiscard]] std::optional<int64_t> integer_setting(std::string_view path) const;
  /// Steps of the whole run, where that is known.
  [[nodiscard]] std::optional<int64_t> total_steps() const;
  [[nodiscard]] int64_t last_step() const { return metrics.empty() ? 0 : metrics.back().step; }
};

/// What of the pictures goes into a page, which holds their bytes.
struct PictureLimits {
  int64_t count = 6;                    ///< pictures of one run, at most
  uint64_t bytes = uint64_t{4} << 20U;  ///< size of one picture, at most
};

/// Reads the run folder `path`. What is missing or damaged is noted in the record. Throws base::OutputError when the
/// folder holds no run at all, or cannot be read.
RunRecord read_run(const base::FileSystem& files, const base::Path& path, const PictureLimits& limits = {});

}  // namespace ddpm::report
