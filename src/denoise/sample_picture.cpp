#include "denoise/sample_picture.h"

#include <algorithm>
#include <cmath>
#include <span>

#include <ATen/ops/empty.h>

#include "observe/colour_map.h"

namespace ddpm::denoise {
namespace {

constexpr double kDeviations = 3.0;

ColourRange range_of(const data::ChannelStatistics& channel) {
  const double low = std::max(channel.min, channel.mean - kDeviations * channel.std);
  const double high = std::min(channel.max, channel.mean + kDeviations * channel.std);
  if (!(low < high)) return {static_cast<float>(channel.mean) - 1.0F, static_cast<float>(channel.mean) + 1.0F};
  return {static_cast<float>(low), static_cast<float>(high)};
}

/// So many samples of `channels` cells each side by side that the grid is about square.
int64_t square_columns(int64_t samples, int64_t channels) {
  const double side = std::sqrt(static_cast<double>(samples * channels));
  return std::max<int64_t>(1, std::llround(side / static_cast<double>(channels)));
}

}  // namespace

SamplePicture::SamplePicture(const ImageRecord& image, int64_t channels, const std::optional<ImageValues>& values)
    : height_(image.height),
      depth_(image.depth),
      is_picture_(image.dtype == base::DType::u8 && (channels == 1 || channels == 3)) {
  ranges_.resize(static_cast<std::size_t>(channels));
  if (image.dtype == base::DType::u8) std::ranges::fill(ranges_, ColourRange{-1.0F, 1.0F});
  if (!values) return;
  for (std::size_t i = 0; i < std::min(ranges_.size(), values->channels.size()); ++i)
    ranges_[i] = range_of(values->channels[i]);
}

observe::Image SamplePicture::draw(const at::Tensor& samples, int64_t columns) const {
  const at::Tensor layers =
      depth_ > 0 ? samples.narrow(2, depth_ / 2 * height_, height_).contiguous() : samples.contiguous();
  if (!is_picture_) return draw_field(layers, columns);
  const std::span values(layers.const_data_ptr<float>(), static_cast<std::size_t>(layers.numel()));
  return observe::image_grid_nchw(values, layers.size(1), layers.size(2), layers.size(3), {.columns = columns});
}

observe::Image SamplePicture::draw_field(const at::Tensor& layers, int64_t columns) const {
  const int64_t channels = layers.size(1);
  const int64_t pixels = layers.size(2) * layers.size(3);
  std::vector<uint8_t> colours;
  colours.reserve(static_cast<std::size_t>(layers.numel() * 3));
  const float* value = layers.const_data_ptr<float>();
  for (int64_t cell = 0; cell < layers.size(0) * channels; ++cell) {
    const ColourRange range = ranges_[static_cast<std::size_t>(cell % channels)];
    for (int64_t i = 0; i < pixels; ++i, ++value) {
      const auto colour = observe::viridis((*value - range.low) / (range.high - range.low));
      colours.insert(colours.end(), colour.begin(), colour.end());
    }
  }
  const int64_t side_by_side = columns > 0 ? columns : square_columns(layers.size(0), channels);
  return observe::image_grid(colours, layers.size(2), layers.size(3), 3, {.columns = side_by_side * channels});
}

}  // namespace ddpm::denoise
