#include "data/prepare/decode.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/counted.h"
#include "base/error.h"

namespace ddpm::data::prepare {
namespace {

template <std::size_t N>
bool has_at(std::span<const std::byte> bytes, std::size_t at, const std::array<unsigned char, N>& magic) {
  return bytes.size() >= at + N && std::equal(magic.begin(), magic.end(), bytes.begin() + static_cast<int64_t>(at),
                                              [](unsigned char a, std::byte b) { return std::byte{a} == b; });
}

bool is_tiff(std::span<const std::byte> bytes) {
  using Magic = std::array<unsigned char, 4>;
  constexpr std::array<Magic, 4> kMagics = {{
      {'I', 'I', 42, 0},
      {'M', 'M', 0, 42},
      {'I', 'I', 43, 0},  // BigTIFF
      {'M', 'M', 0, 43},
  }};
  return std::ranges::any_of(kMagics, [&](const Magic& magic) { return has_at(bytes, 0, magic); });
}

Stored<Picture> as_picture(Decoded decoded) { return {std::move(decoded.image), decoded.orientation}; }

Stored<Picture> decode_any(std::span<const std::byte> bytes, const DecodeLimits& limits) {
  switch (sniff(bytes)) {
    case FileType::png:
      return as_picture(decode_png(bytes, limits));
    case FileType::jpeg:
      return as_picture(decode_jpeg(bytes, limits));
    case FileType::webp:
      return as_picture(decode_webp(bytes, limits));
    case FileType::tiff:
      return decode_tiff(bytes, limits);
    case FileType::unknown:
      break;
  }
  throw base::DatasetError("{}",
                           bytes.empty() ? "the file is empty" : "neither PNG, JPEG, WebP nor TIFF, whatever its name");
}

FloatImage with_all_channels(FloatImage image, int channels) {
  if (image.channels == channels) return image;
  throw base::DatasetError("{} of float32, wanted {} (--channels)", base::counted(image.channels, "channel"), channels);
}

}  // namespace

void DecodeLimits::check(std::string_view format, int64_t width, int64_t height) const {
  if (width <= max_side && height <= max_side && width * height <= max_pixels) return;
  throw base::DatasetError("{}: {} x {} pixels are more than the limit of {}", format, width, height, max_pixels);
}

FileType sniff(std::span<const std::byte> bytes) {
  constexpr std::array<unsigned char, 8> kPng = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1A, '\n'};
  constexpr std::array<unsigned char, 3> kJpeg = {0xFF, 0xD8, 0xFF};
  constexpr std::array<unsigned char, 4> kRiff = {'R', 'I', 'F', 'F'};
  constexpr std::array<unsigned char, 4> kWebp = {'W', 'E', 'B', 'P'};
  if (has_at(bytes, 0, kPng)) return FileType::png;
  if (has_at(bytes, 0, kJpeg)) return FileType::jpeg;
  if (has_at(bytes, 0, kRiff) && has_at(bytes, 8, kWebp)) return FileType::webp;
  if (is_tiff(bytes)) return FileType::tiff;
  return FileType::unknown;
}

base::DType stored_type(std::span<const std::byte> bytes) {
  return sniff(bytes) == FileType::tiff && tiff_holds_floats(bytes) ? base::DType::f32 : base::DType::u8;
}

Picture decode_picture(std::span<const std::byte> bytes, base::DType type, int channels, const DecodeLimits& limits) {
  Stored<Picture> decoded = decode_any(bytes, limits);
  const bool floats = std::holds_alternative<FloatImage>(decoded.image);
  if (floats != (type == base::DType::f32)) {
    throw base::DatasetError("{}, while the first picture, which decides for the set, has {}",
                             floats ? "float32 values" : "integers", floats ? "integers" : "float32 values");
  }
  if (floats) {
    FloatImage image = with_all_channels(std::get<FloatImage>(std::move(decoded.image)), channels);
    return upright(std::move(image), decoded.orientation);
  }
  return upright(with_channels(std::get<Image>(std::move(decoded.image)), channels), decoded.orientation);
}

}  // namespace ddpm::data::prepare
