// Inside src/h5 only: one open file for all arrays that are read from it without HDF5.
#pragma once

#include <mutex>
#include <optional>
#include <utility>

#include "base/file_system.h"
#include "base/input_file.h"

namespace ddpm::h5 {

/// A file that is opened by the first read. Many files of many arrays each would otherwise need more descriptors than a
/// process may have.
class LazyFile {
 public:
  explicit LazyFile(base::Path path) : path_(std::move(path)) {}

  /// Opens the file unless it is open. From any thread.
  const base::InputFile& get() {
    const std::lock_guard lock(mutex_);
    if (!file_) file_.emplace(path_);
    return *file_;
  }

 private:
  base::Path path_;
  std::mutex mutex_;
  std::optional<base::InputFile> file_;
};

}  // namespace ddpm::h5
