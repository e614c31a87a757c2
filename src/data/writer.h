// Writing shards. Each shard is written by exactly one rank, and its bytes are a function of its values alone.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/file_system.h"
#include "data/field_values.h"
#include "data/format.h"
#include "data/shard_result.h"

namespace ddpm::data {

/// Writes one shard. What is read in blocks (images, conditions, masks of each image) goes to disk as it is appended;
/// all other values and the checksums are kept until finish().
class ShardWriter {
 public:
  /// Creates `path` (a temporary name; it must not exist) with room for the values of `capacity` images: `fields` are
  /// what each image has, images among them, one that is read in blocks after the other. `set_fields` are what all
  /// images share, with `set_values` in their order; they belong in the first shard of a set, and a mask of the set is
  /// given to every shard by `set_mask` (one byte for each pixel; empty: there is none). `source` is where the values
  /// come from, and `first` the number of the first image there, for messages. Failures of HDF5 and of the file system
  /// throw OutputError: it is the shard that cannot be written. With an `alignment` each array that is read in blocks
  /// begins at a multiple of so many bytes, such as a stripe of a parallel file system; the bytes between are zeros.
  struct Contents {
    std::vector<Field> fields = {};
    std::vector<Field> set_fields = {};
    std::vector<std::vector<std::byte>> set_values = {};
    std::vector<std::byte> set_mask = {};
    std::string source = {};
    int64_t first = 0;
    int64_t alignment = 0;
  };
  ShardWriter(base::FileSystem& files, Path path, Contents contents, int64_t capacity);
  /// A shard of images, and of an array of int64, one number for each image, of each name in `columns`.
  ShardWriter(base::FileSystem& files, Path path, const ImageFormat& format, const std::vector<std::string>& columns,
              int64_t capacity, int64_t alignment = 0);
  ~ShardWriter();
  ShardWriter(ShardWriter&&) noexcept;
  ShardWriter& operator=(ShardWriter&&) noexcept;

  /// Appends the values of n images. Values that no set may hold throw DatasetError, before any is written: float32
  /// that is not finite (of images, where the mask says that the pixel counts), and masks of other values than 0 and 1.
  void append(const FieldValues& values);
  /// Appends images [n, height, width, channels] (of volumes [n, depth, ...]) in the stored type, with n numbers for
  /// each column.
  void append(std::span<const std::byte> images, const std::vector<std::span<const int64_t>>& columns);
  [[nodiscard]] int64_t count() const;
  /// Writes what was kept, closes and fsyncs the file, and takes its digests. With fewer images than `capacity` the
  /// file is first rewritten to the exact size, through `path` + ".exact". An empty shard is valid.
  ShardResult finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ddpm::data
