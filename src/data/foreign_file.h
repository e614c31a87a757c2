// Inside src/data: a bare .h5 file, which has no digests unless it was adopted. Nothing proves then that its values are
// the ones that were written, so that it is at least made sure that HDF5 survives it, and that it stays the file that
// was opened.
#pragma once

#include <string>

#include "base/input_file.h"
#include "data/dataset_options.h"
#include "data/format.h"

namespace ddpm::data {

/// Opens the file in a child process, and reads the first and the last row of each array that a dataset has. Throws
/// DatasetError with what opening it says, or with what became of the child: it crashed, took too long, or wanted too
/// much memory.
void try_foreign_file(const Path& path, const DatasetOptions& options);

/// Opens the file in a child process, and reads the first and the last value of all its arrays. What cannot be opened
/// as an array of numbers is left out.
void try_all_arrays(const Path& path);

/// The file that a path named when it was opened: which file it is, its size and when it was last changed.
class OpenedFile {
 public:
  /// Throws DatasetError when the path cannot be examined.
  static OpenedFile of(const Path& path);

  /// Throws DatasetError unless the path still names the same file, of the same size and with the same time.
  void expect_unchanged(const Path& path) const;
  /// Throws DatasetError unless `seen` is text() of what another rank, which knows the file by another number, has
  /// found.
  void expect_like(const Path& path, const std::string& seen) const;
  /// "12288 bytes, changed 2026-11-22 17:41:03.123456789 UTC"
  [[nodiscard]] std::string text() const;

 private:
  base::FileFacts facts_;
};

}  // namespace ddpm::data
