// RUN/metrics.csv: the rows of metrics.jsonl as a table, for programs that read nothing else.
//
// The first line names the columns. One that a later row brings along, such as the loss of the first validation, is
// added behind the others, and the file is replaced: rows before it have an empty cell there.
//
// Used by rank 0 only; makes no collective call. Failures throw base::OutputError.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "observe/line_file.h"
#include "observe/metrics.h"

namespace ddpm::observe {

class CsvLog : public LineFile {
 public:
  using LineFile::LineFile;

  /// Has the file hold `rows`, those of metrics.jsonl. One that holds anything else, such as later rows, those of a
  /// history that was given up, or none of a while without a table, is replaced. Later rows follow these, also where
  /// the file was displaced().
  void begin(std::span<const StepMetrics> rows);
  /// Writes one row and flushes it to the operating system.
  void append(const StepMetrics& metrics);

 private:
  /// The cells of a row: those of columns_, then those of `fresh` columns, which are not among them.
  std::vector<std::string> row_of(const StepMetrics& metrics, std::vector<std::string>& fresh) const;
  void add_columns(std::span<const std::string> names);

  std::vector<std::string> columns_;
};

}  // namespace ddpm::observe
