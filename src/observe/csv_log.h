// RUN/metrics.csv: the rows of metrics.jsonl as a table, for programs that read nothing else.
//
// The first line names the columns. One that a later row brings along, such as the loss of the first validation, is
// added behind the others, and the file is replaced: rows before it have an empty cell there.
//
// Used by rank 0 only; makes no collective call. Failures throw base::OutputError.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "observe/line_file.h"
#include "observe/metrics.h"

namespace ddpm::observe {

class CsvLog : public LineFile {
 public:
  using LineFile::LineFile;

  /// Continues the file, whose rows after `step` and whose half-written row are removed, so that no step appears twice.
  /// `rows` are those of metrics.jsonl up to `step`. A table of other steps, such as of a run that had no table for a
  /// while, is made anew of them.
  void begin(int64_t step, std::span<const StepMetrics> rows);
  /// Writes one row and flushes it to the operating system.
  void append(const StepMetrics& metrics);

 private:
  void add_columns(std::span<const std::string> names);

  std::vector<std::string> columns_;
};

}  // namespace ddpm::observe
