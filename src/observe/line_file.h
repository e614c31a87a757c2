// A text file that grows line by line while a run works, and that somebody may remove or replace meanwhile.
//
// Used by one rank; makes no collective call. Failures throw base::OutputError.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/file_identity.h"
#include "base/file_system.h"

namespace ddpm::observe {

/// Most bytes that are read of such a file; far above any run: the metrics of a million steps take 400 MB.
inline constexpr uint64_t kMostLogBytes = uint64_t{4} << 30U;

class LineFile {
 public:
  /// Nothing is created before the first line.
  LineFile(base::FileSystem& files, base::Path path);

  /// Writes a line, given without its end, and flushes it to the operating system.
  void append_line(std::string_view line);
  /// On return every appended line is on disk. Called before a checkpoint commits.
  void sync();

  /// Whether lines go into a file that has lost its name: it was removed, or another one took its place.
  [[nodiscard]] bool displaced() const;
  /// Closes that file: the next line goes into the file that has the name by then, or into a new one.
  void reopen() { file_.reset(); }

 protected:
  [[nodiscard]] base::FileSystem& files() { return files_; }
  [[nodiscard]] const base::Path& path() const { return path_; }

 private:
  base::FileSystem& files_;
  base::Path path_;
  std::unique_ptr<base::WritableFile> file_;
  std::optional<base::FileIdentity> identity_;  ///< tells displaced() whether path_ still leads to file_
};

}  // namespace ddpm::observe
