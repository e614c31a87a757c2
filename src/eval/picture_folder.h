// A folder of pictures as a set of samples, such as `ddpm sample --output FOLDER` writes one.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "base/file_system.h"
#include "comm/communicator.h"
#include "data/prepare/image_source.h"

namespace ddpm::eval {

/// 8-bit pictures of one size, in bytewise order of their names. Grey ones count as coloured, and the other way round,
/// as `ddpm data create` converts them.
class PictureFolder {
 public:
  /// One rank lists the folder. Throws DatasetError's code on all ranks for one without pictures, for pictures that
  /// would be left out, and for those of floating point. Collective.
  static PictureFolder open(comm::Communicator& comm, const base::Path& path);

  [[nodiscard]] int64_t size() const { return source_->size(); }
  /// The sides of the first picture.
  [[nodiscard]] int64_t height() const { return height_; }
  [[nodiscard]] int64_t width() const { return width_; }
  /// 1 or 3; pictures are read with 3 until it is set.
  void set_channels(int64_t channels);
  [[nodiscard]] int64_t channels() const { return channels_; }

  /// Bytes of pictures [first, first + n), [n, height, width, channels]. Throws DatasetError for one that cannot be
  /// decoded, or is of another size than the first.
  void read(int64_t first, int64_t n, std::span<std::byte> out) const;

 private:
  PictureFolder(std::unique_ptr<base::FileSystem> files, std::unique_ptr<data::prepare::ImageSource> source);
  [[nodiscard]] data::prepare::Image decoded(int64_t index) const;

  std::unique_ptr<base::FileSystem> files_;  // which the source refers to
  std::unique_ptr<data::prepare::ImageSource> source_;
  int64_t height_ = 0;
  int64_t width_ = 0;
  int64_t channels_ = 3;
};

}  // namespace ddpm::eval
