#include "observe/png_encoder.h"

#include <png.h>

#include "base/check.h"
#include "base/error.h"

namespace ddpm::observe {

namespace {

/// libpng's simplified API frees its state here, also when an exception passes by.
struct PngImage {
  png_image image{};
  PngImage() { image.version = PNG_IMAGE_VERSION; }
  ~PngImage() { png_image_free(&image); }
  PngImage(const PngImage&) = delete;
  PngImage& operator=(const PngImage&) = delete;
};

}  // namespace

std::string encode_png(std::span<const uint8_t> pixels_hwc, int64_t height, int64_t width, int64_t channels) {
  if (channels != 1 && channels != 3) {
    throw base::OutputError(
        "cannot write a PNG picture: images have {} channels, wanted 1 (grey) or 3 (RGB); write .npy or .h5", channels);
  }
  DDPM_CHECK(height > 0 && width > 0 && static_cast<int64_t>(pixels_hwc.size()) == height * width * channels,
             "{} bytes for {} x {} x {}", pixels_hwc.size(), height, width, channels);
  PngImage png;
  png.image.width = static_cast<png_uint_32>(width);
  png.image.height = static_cast<png_uint_32>(height);
  png.image.format = channels == 1 ? PNG_FORMAT_GRAY : PNG_FORMAT_RGB;

  png_alloc_size_t size = PNG_IMAGE_PNG_SIZE_MAX(png.image);
  std::string bytes(size, '\0');
  if (png_image_write_to_memory(&png.image, bytes.data(), &size, 0, pixels_hwc.data(), 0, nullptr) == 0) {
    throw base::OutputError("cannot encode a PNG picture of {} x {} pixels: {}", width, height, png.image.message);
  }
  bytes.resize(size);
  return bytes;
}

void write_png(base::FileSystem& files, const base::Path& path, const Image& image) {
  base::write_atomically(files, path, encode_png(image.pixels_hwc, image.height, image.width, image.channels));
}

}  // namespace ddpm::observe
