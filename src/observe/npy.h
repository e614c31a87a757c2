// NumPy's .npy files of float32 in C order. Format: numpy.lib.format, versions 1.0 to 3.0; 1.0 is written.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/file_system.h"
#include "base/input_file.h"

namespace ddpm::observe {

/// Writes an array piece by piece. It appears under its name only with commit(), whole and on disk; until then, and
/// when the writer is destroyed without commit(), there is at most a temporary file beside it, which the destructor
/// removes. Failures throw base::OutputError.
class NpyWriter {
 public:
  NpyWriter(base::FileSystem& files, base::Path path, std::vector<int64_t> shape);

  /// The next elements in C order (last axis fastest).
  void append(std::span<const float> elements);
  /// Syncs the file, renames it to its final name and syncs the folder. Throws InternalError unless all elements were
  /// appended.
  void commit();

 private:
  base::Path path_;
  base::StagedPath staged_;
  int64_t remaining_ = 1;
  std::unique_ptr<base::WritableFile> file_;
};

/// Reads an array of which nothing is trusted. The header must be a version 1 to 3 header of at most 64 KiB with '<f4',
/// C order and a shape of at most 8 axes, and the file exactly as long as it says. Anything else, also
/// a file that cannot be read, throws base::ConfigError (the file was named on the command line), naming what was seen
/// and what is wanted.
class NpyReader {
 public:
  explicit NpyReader(const std::filesystem::path& path);

  [[nodiscard]] const std::vector<int64_t>& shape() const { return shape_; }
  /// Elements [first, first + out.size()) in C order.
  void read(int64_t first, std::span<float> out);
  /// Throws base::ConfigError where the path leads to something else by now, or to a file that was changed. What was
  /// read before is then not what a digest of the file stands for.
  void expect_unchanged() const;

 private:
  void read_header();

  base::InputFile file_;
  std::vector<int64_t> shape_;
  int64_t count_ = 1;
  uint64_t data_offset_ = 0;
};

}  // namespace ddpm::observe
