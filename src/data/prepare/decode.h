// PNG, JPEG, WebP and TIFF files, which nobody vouches for, to 8-bit or float32 pixels.
//
// All functions throw base::DatasetError whose text is a reason fit for a list of skipped images: it names no path.
// When memory runs out for an image within the limits, which says nothing of the image, they throw std::bad_alloc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/dtype.h"
#include "data/prepare/image.h"

namespace ddpm::data::prepare {

/// What an image may cost. A file that claims more is refused before its pixels are allocated.
struct DecodeLimits {
  int64_t max_side = 65535;
  int64_t max_pixels = int64_t{1} << 27;  ///< 134 megapixels: 403 MB as RGB
  int max_jpeg_scans = 500;               ///< a progressive file may make the decoder pass over the image this often

  /// Throws DatasetError for an image of another size than allowed. `format` begins the reason.
  void check(std::string_view format, int64_t width, int64_t height) const;
};

enum class FileType : uint8_t { unknown, png, jpeg, webp, tiff };

/// By the file's first bytes, whatever its name.
FileType sniff(std::span<const std::byte> bytes);

/// Pixels as stored, and how they want to be turned (see upright()).
template <typename AnyImage>
struct Stored {
  AnyImage image;
  int orientation = 1;
};
using Decoded = Stored<Image>;

/// Every colour type and bit depth, interlaced or not. 16 bits become v / 257 rounded, fewer than 8 are spread to
/// 0..255, transparency is laid over white. Orientation comes from the eXIf chunk. Colour profiles and gamma are not
/// applied.
Decoded decode_png(std::span<const std::byte> bytes, const DecodeLimits& limits = {});

/// Grey, YCbCr, RGB, CMYK and YCCK (stored as complements, as Adobe does). Orientation comes from the EXIF marker.
/// Data that end early or do not decode are an error, not grey pixels. Colour profiles are not applied.
Decoded decode_jpeg(std::span<const std::byte> bytes, const DecodeLimits& limits = {});

/// Lossy and lossless, transparency laid over white, orientation from the EXIF chunk. Animations are refused.
Decoded decode_webp(std::span<const std::byte> bytes, const DecodeLimits& limits = {});

/// The first picture of a TIFF or BigTIFF file, in strips or tiles, interleaved or by planes, with any compression that
/// libtiff knows but the JPEG of TIFF 6.0 that was withdrawn.
///
/// Grey, palettes, RGB, CMYK, and YCbCr as JPEG, in 1, 2, 4, 8 or 16 bits: they become 8 bits as those of PNG files do.
/// Grey or RGB of IEEE numbers in 32 or 64 bits become float32; one that is not finite is an error.
Stored<Picture> decode_tiff(std::span<const std::byte> bytes, const DecodeLimits& limits = {});

/// Whether a TIFF file holds IEEE numbers.
bool tiff_holds_floats(std::span<const std::byte> bytes);

/// The type in which the file's pixels are stored in a set: f32 for a TIFF file of IEEE numbers, else u8. It looks at
/// the header alone.
base::DType stored_type(std::span<const std::byte> bytes);

/// Any format, upright, of `type`, with 1 or 3 channels. Channels of floats are not converted: another number of them
/// is an error, as is another type.
Picture decode_picture(std::span<const std::byte> bytes, base::DType type, int channels,
                       const DecodeLimits& limits = {});

}  // namespace ddpm::data::prepare
