// RUN/metrics.jsonl: one JSON object per logged optimizer step.
//
// Used by rank 0 only; makes no collective call. Failures throw base::OutputError.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/file_system.h"
#include "observe/line_file.h"
#include "observe/metrics.h"

namespace ddpm::observe {

class MetricsLog : public LineFile {
 public:
  using LineFile::LineFile;

  /// Writes one line and flushes it to the operating system.
  void append(const StepMetrics& metrics) { append_line(to_json_line(metrics)); }
};

/// The steps of the file at `path`, each later than the one before: half-written lines, lines that are not metrics, and
/// steps that are not later are passed over. An absent file has none. One of more than 4 GiB throws.
std::vector<StepMetrics> read_metrics(const base::FileSystem& files, const base::Path& path);

/// After a checkpoint of `step` was loaded: removes from the file at `path` the lines of later steps, half-written
/// lines, and repeated steps, so that no step appears twice when training continues. The file is replaced atomically;
/// one that is absent or needs no change is left alone.
void cut_back(base::FileSystem& files, const base::Path& path, int64_t step);

}  // namespace ddpm::observe
