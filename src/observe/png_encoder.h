// 8-bit grey and RGB pictures as PNG, by libpng.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "base/file_system.h"
#include "observe/image_grid.h"

namespace ddpm::observe {

/// The bytes of a PNG file of `pixels_hwc`, [height, width, channels]. `channels` is 1 (grey) or 3 (RGB); any other
/// number throws an OutputError that recommends .npy or .h5. Equal pixels give equal bytes, since no time stamp is
/// kept.
std::string encode_png(std::span<const uint8_t> pixels_hwc, int64_t height, int64_t width, int64_t channels);

/// Writes `image` at `path`, atomically.
void write_png(base::FileSystem& files, const base::Path& path, const Image& image);

}  // namespace ddpm::observe
