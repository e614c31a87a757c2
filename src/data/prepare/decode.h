// PNG and JPEG files, which nobody vouches for, to 8-bit grey or RGB.
//
// All functions throw base::DatasetError whose text is a reason fit for a list of skipped images: it names no path.
// When memory runs out for an image within the limits, which says nothing of the image, they throw std::bad_alloc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "data/prepare/image.h"

namespace ddpm::data::prepare {

/// What an image may cost. A file that claims more is refused before its pixels are allocated.
struct DecodeLimits {
  int64_t max_side = 65535;
  int64_t max_pixels = int64_t{1} << 27;  ///< 134 megapixels: 403 MB as RGB
  int max_jpeg_scans = 500;               ///< a progressive file may make the decoder pass over the image this often
};

enum class FileType : uint8_t { unknown, png, jpeg };

/// By the file's first bytes, whatever its name.
FileType sniff(std::span<const std::byte> bytes);

/// Pixels as stored, and how they want to be turned (see upright()).
struct Decoded {
  Image image;
  int orientation = 1;
};

/// Every colour type and bit depth, interlaced or not. 16 bits become v / 257 rounded, fewer than 8 are spread to
/// 0..255, transparency is laid over white. Orientation comes from the eXIf chunk. Colour profiles and gamma are not
/// applied.
Decoded decode_png(std::span<const std::byte> bytes, const DecodeLimits& limits = {});

/// Grey, YCbCr, RGB, CMYK and YCCK (stored as complements, as Adobe does). Orientation comes from the EXIF marker.
/// Data that end early or do not decode are an error, not grey pixels. Colour profiles are not applied.
Decoded decode_jpeg(std::span<const std::byte> bytes, const DecodeLimits& limits = {});

/// Either format, upright, with 1 or 3 channels.
Image decode_image(std::span<const std::byte> bytes, int channels, const DecodeLimits& limits = {});

}  // namespace ddpm::data::prepare
