// Inside src/data: what is done to a block of images after it was read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "data/format.h"

namespace ddpm::data {

/// A window of an image, along the axes of its pixels: beyond the end of an axis it goes on at the beginning.
struct WindowPlace {
  std::vector<int64_t> begin = {};
  std::vector<int64_t> extent = {};
};

/// Where the pixels of a window lie in the whole image.
struct WindowOrigin {
  const WindowPlace* window = nullptr;  ///< null: the image is whole
  std::vector<int64_t> sides = {};      ///< [height, width] or [depth, height, width] of the whole image

  [[nodiscard]] int64_t whole_pixel(int64_t pixel) const;
};

/// Where a block of images comes from, for messages.
struct BlockOrigin {
  const std::string& label;   ///< which array holds the images: "FILE:/name"
  int64_t first = 0;          ///< number of the block's first image in the array
  int64_t first_in_set = -1;  ///< number of that image in the dataset; -1: it is not known
  std::string advice = {};    ///< what else may be wanted where a value is not finite
  WindowOrigin window = {};   ///< which part of its one image the block is; by default whole images
};

/// [n, channels, height, width], as some files store images, to [n, height, width, channels].
void to_channels_last(std::span<const std::byte> stored, const ImageFormat& format, std::span<std::byte> out);

/// Throws DatasetError unless the CRC-32C of each image, as it is stored, is the one in `wanted`, which has one for
/// each.
void require_checksums(std::span<const std::byte> stored, const ImageFormat& format, std::span<const uint32_t> wanted,
                       const BlockOrigin& origin);

/// Throws DatasetError unless the CRC-32C of the one image is `wanted`.
void require_checksum(uint32_t seen, uint32_t wanted, const BlockOrigin& origin);

/// Throws DatasetError when a value of float32 images, channels last, is not finite, and names its place. One such
/// value would turn the loss, and then all weights, into NaN, and nothing would tell where it came from.
void require_finite(std::span<const std::byte> block, const ImageFormat& format, const BlockOrigin& origin);

/// Gives the masks of a block's images, one byte for each pixel.
using BlockMasks = std::function<std::vector<std::byte>()>;
/// Does not look at the pixels that `masks` says are not valid. It is asked only when a value is not finite.
void require_finite(std::span<const std::byte> block, const ImageFormat& format, const BlockOrigin& origin,
                    const BlockMasks& masks);

/// Throws DatasetError when a value of a block of masks is neither 0 nor 1, and names its place.
void require_zero_or_one(std::span<const std::byte> block, const ImageFormat& format, const BlockOrigin& origin);

/// Reads bytes of a file without HDF5, and throws DatasetAccessError where that fails. MPI-IO may call a read a success
/// that gave nothing (Open MPI's does), for which HDF5 gives zeros: images of zeros are not damaged then.
void expect_readable(const Path& file, uint64_t offset, std::size_t bytes);

}  // namespace ddpm::data
