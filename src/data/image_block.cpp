#include "data/image_block.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <vector>

#include "base/crc32c.h"
#include "base/error.h"
#include "base/file_error.h"
#include "base/input_file.h"
#include "data/finite.h"

namespace ddpm::data {

using base::DatasetError;

namespace {

/// to_channels_last() for elements of type T.
template <typename T>
void to_channels_last_of(std::span<const std::byte> in, const ImageFormat& format, std::span<std::byte> out) {
  const auto pixels = static_cast<std::size_t>(format.pixels());
  const auto channels = static_cast<std::size_t>(format.channels);
  for (std::size_t image = 0; image < in.size(); image += format.bytes()) {
    for (std::size_t c = 0; c < channels; ++c) {
      for (std::size_t p = 0; p < pixels; ++p) {
        std::memcpy(&out[image + (p * channels + c) * sizeof(T)], &in[image + (c * pixels + p) * sizeof(T)], sizeof(T));
      }
    }
  }
}

/// "image 301 (number 1301 of the dataset)"
std::string image_text(const BlockOrigin& origin, int64_t image) {
  if (origin.first_in_set < 0) return fmt::format("image {}", origin.first + image);
  return fmt::format("image {} (number {} of the dataset)", origin.first + image, origin.first_in_set + image);
}

}  // namespace

int64_t WindowOrigin::whole_pixel(int64_t pixel) const {
  if (window == nullptr) return pixel;
  int64_t whole = 0;
  int64_t step = 1;  // pixels of the whole image from one to the next along the axis
  for (std::size_t axis = sides.size(); axis-- > 0;) {
    whole += (window->begin[axis] + pixel % window->extent[axis]) % sides[axis] * step;
    pixel /= window->extent[axis];
    step *= sides[axis];
  }
  return whole;
}

void to_channels_last(std::span<const std::byte> stored, const ImageFormat& format, std::span<std::byte> out) {
  if (format.dtype == base::DType::u8) return to_channels_last_of<uint8_t>(stored, format, out);
  to_channels_last_of<float>(stored, format, out);
}

void require_checksums(std::span<const std::byte> stored, const ImageFormat& format, std::span<const uint32_t> wanted,
                       const BlockOrigin& origin) {
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const auto image = static_cast<int64_t>(i);
    require_checksum(base::crc32c(stored.subspan(i * format.bytes(), format.bytes())), wanted[i],
                     {origin.label, origin.first + image, origin.first_in_set < 0 ? -1 : origin.first_in_set + image});
  }
}

void require_checksum(uint32_t seen, uint32_t wanted, const BlockOrigin& origin) {
  if (seen == wanted) return;
  throw DatasetError("{}: {} is damaged: its CRC-32C is {:08x}, {:08x} was written", origin.label,
                     image_text(origin, 0), seen, wanted);
}

void require_finite(std::span<const std::byte> block, const ImageFormat& format, const BlockOrigin& origin) {
  require_finite(block, format, origin, {});
}

void require_finite(std::span<const std::byte> block, const ImageFormat& format, const BlockOrigin& origin,
                    const BlockMasks& masks) {
  const auto channels = static_cast<std::size_t>(format.channels);
  std::optional<int64_t> found = first_non_finite(block);
  if (found && masks) {
    const std::vector<std::byte> valid = masks();
    const std::size_t pixel_bytes = channels * sizeof(float);
    for (auto pixel = static_cast<std::size_t>(*found) / channels; pixel < valid.size(); ++pixel) {
      found = valid[pixel] == std::byte{0} ? std::nullopt
                                           : first_non_finite(block.subspan(pixel * pixel_bytes, pixel_bytes));
      if (!found) continue;
      *found += static_cast<int64_t>(pixel * channels);
      break;
    }
  }
  if (!found) return;
  float value = 0.0F;
  std::memcpy(&value, block.data() + static_cast<std::size_t>(*found) * sizeof(value), sizeof(value));
  const int64_t image = *found / format.elements();
  const int64_t element = *found % format.elements();
  const int64_t pixel = origin.window.whole_pixel(element / format.channels);
  const int64_t width = origin.window.window == nullptr ? format.width : origin.window.sides.back();
  throw DatasetError("{}: {} holds {} in channel {} at row {}, column {}; finite values are wanted{}", origin.label,
                     image_text(origin, image), value, element % format.channels, pixel / width, pixel % width,
                     std::isnan(value) ? origin.advice : "");
}

void require_zero_or_one(std::span<const std::byte> block, const ImageFormat& format, const BlockOrigin& origin) {
  const auto odd = std::ranges::find_if(block, [](std::byte value) { return value > std::byte{1}; });
  if (odd == block.end()) return;
  const int64_t element = odd - block.begin();
  const int64_t image = element / format.elements();
  const int64_t pixel = origin.window.whole_pixel(element % format.elements());
  const int64_t width = origin.window.window == nullptr ? format.width : origin.window.sides.back();
  throw DatasetError("{}: the mask of {} holds {} at row {}, column {}; 0 or 1 is wanted", origin.label,
                     image_text(origin, image), std::to_integer<int>(*odd), pixel / width, pixel % width);
}

void expect_readable(const Path& file, uint64_t offset, std::size_t bytes) {
  std::vector<std::byte> read(bytes);
  base::read_as<DatasetError>([&] { static_cast<void>(base::InputFile(file).read_up_to(offset, read)); });
}

}  // namespace ddpm::data
