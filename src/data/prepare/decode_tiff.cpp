#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <limits>

#include "base/error.h"
#include "data/prepare/blend.h"
#include "data/prepare/decode.h"
#include "data/prepare/tiff_file.h"

namespace ddpm::data::prepare {
namespace {

/// Integers of 16 bits.
class Deep {
 public:
  explicit Deep(std::span<const uint8_t> row) : row_(row) {}

  [[nodiscard]] uint16_t operator[](std::size_t i) const {
    uint16_t value = 0;
    std::memcpy(&value, &row_[sizeof(value) * i], sizeof(value));
    return value;
  }

 private:
  std::span<const uint8_t> row_;
};

/// Integers of 1 to 16 bits as they are packed, each turned into 8 bits: v / 257 of 16, spread to 0..255 of fewer; or
/// as they are, where they are places in a palette.
class Integers {
 public:
  Integers(std::span<const uint8_t> row, int bits, bool as_they_are)
      : row_(row), bits_(static_cast<std::size_t>(bits)), spread_(as_they_are || bits > 8 ? 1U : 255U / mask()) {}

  [[nodiscard]] uint8_t operator[](std::size_t i) const {
    if (bits_ == 8) return row_[i];
    if (bits_ == 16) return static_cast<uint8_t>((Deep(row_)[i] * 255U + 32895U) >> 16U);  // v / 257, rounded
    // The first sample of a byte is its highest bits.
    const std::size_t bit = i * bits_;
    const unsigned value = static_cast<unsigned>(row_[bit / 8]) >> (8 - bits_ - bit % 8);
    return static_cast<uint8_t>((value & mask()) * spread_);
  }

 private:
  [[nodiscard]] unsigned mask() const { return (1U << bits_) - 1U; }

  std::span<const uint8_t> row_;
  std::size_t bits_;
  unsigned spread_;
};

/// IEEE numbers in 32 or 64 bits, as float32.
class Floats {
 public:
  Floats(std::span<const uint8_t> row, int bits) : row_(row), wide_(bits == 64) {}

  [[nodiscard]] float operator[](std::size_t i) const {
    return wide_ ? static_cast<float>(number<double>(i)) : number<float>(i);
  }

 private:
  template <typename T>
  [[nodiscard]] T number(std::size_t i) const {
    T value{};
    std::memcpy(&value, &row_[sizeof(T) * i], sizeof(T));
    return value;
  }

  std::span<const uint8_t> row_;
  bool wide_;
};

/// Fills the image, whose channels are the first samples of each pixel. samples_of(row) gives the row's samples.
template <typename T, typename SamplesOf>
void read_samples(TiffFile& file, const TiffHeader& header, BasicImage<T>& image, const SamplesOf& samples_of) {
  const auto channels = static_cast<std::size_t>(image.channels);
  const auto in_block = static_cast<std::size_t>(header.planar ? 1 : header.samples);
  file.for_each_block(header, [&](const TiffBlock& block, int first) {
    const std::size_t wanted = header.planar ? 1 : channels;
    if (static_cast<std::size_t>(first) >= channels) return;
    for (int y = 0; y < block.height; ++y) {
      const auto samples = samples_of(block.bytes.subspan(static_cast<std::size_t>(y) * block.row_bytes));
      T* out = image.row(block.y + y).data() + static_cast<std::size_t>(block.x) * channels;
      for (std::size_t x = 0; x < static_cast<std::size_t>(block.width); ++x) {
        for (std::size_t c = 0; c < wanted; ++c) {
          out[x * channels + static_cast<std::size_t>(first) + c] = samples[x * in_block + c];
        }
      }
    }
  });
}

Image look_up(const Image& places, const std::vector<uint8_t>& palette) {
  Image image(places.width, places.height, 3);
  const std::size_t size = palette.size() / 3;
  for (std::size_t i = 0; i < places.pixels.size(); ++i) {
    for (std::size_t c = 0; c < 3; ++c) image.pixels[3 * i + c] = palette[c * size + places.pixels[i]];
  }
  return image;
}

template <typename T>
void invert(BasicImage<T>& image, int channels) {
  const auto step = static_cast<std::size_t>(image.channels);
  for (std::size_t i = 0; i < image.pixels.size(); i += step) {
    for (std::size_t c = 0; c < static_cast<std::size_t>(channels); ++c) {
      image.pixels[i + c] = static_cast<T>(std::numeric_limits<T>::max() - image.pixels[i + c]);
    }
  }
}

/// Grey or RGB whose last channel is opacity.
template <typename T, typename SamplesOf>
Image decode_opacity(TiffFile& file, const TiffHeader& header, const SamplesOf& samples_of) {
  BasicImage<T> image(header.width, header.height, header.colour_samples() + 1);
  read_samples(file, header, image, samples_of);
  if (header.colours == TiffColours::white_is_zero) invert(image, 1);
  return laid_over_white(image, header.premultiplied);
}

Image decode_integers(TiffFile& file, const TiffHeader& header) {
  const bool palette = header.colours == TiffColours::palette;
  const auto integers = [&](std::span<const uint8_t> row) { return Integers(row, header.bits, palette); };
  if (header.has_alpha && !palette && header.colours != TiffColours::inks) {
    if (header.bits != 16) return decode_opacity<uint8_t>(file, header, integers);
    return decode_opacity<uint16_t>(file, header, [](std::span<const uint8_t> row) { return Deep(row); });
  }
  Image image(header.width, header.height, header.colour_samples());
  read_samples(file, header, image, integers);
  if (palette) return look_up(image, file.palette(header.bits));
  if (header.colours == TiffColours::white_is_zero) invert(image, 1);
  if (header.colours == TiffColours::inks) {
    invert(image, 4);  // from ink to the light that it lets through
    inks_to_rgb(image);
  }
  return image;
}

FloatImage decode_floats(TiffFile& file, const TiffHeader& header) {
  FloatImage image(header.width, header.height, header.colour_samples());
  read_samples(file, header, image, [&](std::span<const uint8_t> row) { return Floats(row, header.bits); });
  const auto bad = std::ranges::find_if_not(image.pixels, [](float value) { return std::isfinite(value); });
  if (bad != image.pixels.end()) throw base::DatasetError("TIFF: holds {}, which is not a number to train on", *bad);
  return image;
}

}  // namespace

bool tiff_holds_floats(std::span<const std::byte> bytes) { return TiffFile(bytes, {}).holds_floats(); }

Stored<Picture> decode_tiff(std::span<const std::byte> bytes, const DecodeLimits& limits) {
  TiffFile file(bytes, limits);
  const TiffHeader header = file.header();
  if (header.floats) return {decode_floats(file, header), header.orientation};
  return {decode_integers(file, header), header.orientation};
}

}  // namespace ddpm::data::prepare
