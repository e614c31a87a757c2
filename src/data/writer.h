// Writing shards. Each shard is written by exactly one rank, and its bytes are a function of its images alone.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/file_system.h"
#include "data/format.h"
#include "data/statistics.h"

namespace ddpm::data {

/// What a finished shard is. `info.file` and `info.first` are left to assemble().
struct ShardResult {
  ShardInfo info;
  Statistics statistics;
};

/// The column of labels.
inline constexpr const char* kLabelsPath = "/labels";

/// Writes one shard. Images go to disk as they are appended; columns and checksums are kept until finish().
class ShardWriter {
 public:
  /// Creates `path` (a temporary name; it must not exist) with room for `capacity` images, and for an array of int64,
  /// one number for each image, of each name in `columns`. HDF5's failures throw DatasetError, those of the file system
  /// OutputError.
  ShardWriter(base::FileSystem& files, Path path, const ImageFormat& format, std::vector<std::string> columns,
              int64_t capacity);
  ~ShardWriter();
  ShardWriter(ShardWriter&&) noexcept;
  ShardWriter& operator=(ShardWriter&&) noexcept;

  /// Appends images [n, height, width, channels] (of volumes [n, depth, ...]) in the stored type, with n numbers for
  /// each column.
  void append(std::span<const std::byte> images, const std::vector<std::span<const int64_t>>& columns);
  [[nodiscard]] int64_t count() const;
  /// Writes columns and checksums, closes and fsyncs the file, and takes its digests. With fewer images than `capacity`
  /// the file is first rewritten to the exact size, through `path` + ".exact". An empty shard is valid.
  ShardResult finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// The description of a dataset made of these shards, in order: fills in file names, first indices and statistics.
/// class_names may be empty. Throws DatasetError when there is no image at all.
DatasetInfo assemble(std::vector<Field> fields, std::vector<std::string> class_names,
                     std::span<const ShardResult> shards);

/// A finished shard as JSON text and back (for resuming `data create`); a bad text throws DatasetError.
std::string to_json_text(const ShardResult& shard);
ShardResult parse_shard_result(std::string_view text, const ImageFormat& format, const std::string& origin);

}  // namespace ddpm::data
