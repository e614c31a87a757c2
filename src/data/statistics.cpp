#include "data/statistics.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/check.h"
#include "base/error.h"

namespace ddpm::data {

namespace {

using base::DType;

/// An image [pixels, channels], and its mask [pixels] if it has one.
struct Pixels {
  std::span<const std::byte> values;
  std::span<const std::byte> valid;
  int64_t count;
  int64_t channels;
};

/// Valid pixels of one channel.
template <typename T, typename Visit>
void for_each_value(const Pixels& image, int64_t channel, Visit visit) {
  for (int64_t p = 0; p < image.count; ++p) {
    if (!image.valid.empty() && image.valid[static_cast<std::size_t>(p)] == std::byte{0}) continue;
    T value;
    std::memcpy(&value, image.values.data() + static_cast<std::size_t>(p * image.channels + channel) * sizeof(T),
                sizeof(T));
    visit(value);
  }
}

uint64_t valid_pixels(const Pixels& image) {
  return static_cast<uint64_t>(image.valid.empty() ? image.count
                                                   : image.count - std::ranges::count(image.valid, std::byte{0}));
}

ChannelSums sums_of_u8(const Pixels& image, int64_t channel) {
  uint64_t sum = 0;
  uint64_t squares = 0;
  uint8_t low = 255;
  uint8_t high = 0;
  for_each_value<uint8_t>(image, channel, [&](uint8_t v) {
    sum += v;
    squares += uint64_t{v} * v;
    low = std::min(low, v);
    high = std::max(high, v);
  });
  ChannelSums sums{.count = valid_pixels(image), .sum = sum, .sum_squares = squares};
  sums.min = low;
  sums.max = high;
  return sums;
}

ChannelSums sums_of_f32(const Pixels& image, int64_t channel) {
  ChannelSums sums{.count = valid_pixels(image)};
  double total = 0.0;
  for_each_value<float>(image, channel, [&](float v) {
    total += v;
    sums.min = std::min(sums.min, double{v});
    sums.max = std::max(sums.max, double{v});
  });
  sums.mean = total / static_cast<double>(sums.count);
  for_each_value<float>(image, channel, [&](float v) {
    const double d = v - sums.mean;
    sums.deviations += d * d;
  });
  return sums;
}

void merge_into(ChannelSums& a, const ChannelSums& b) {
  if (b.count == 0) return;
  const double total = static_cast<double>(a.count + b.count);
  const double delta = b.mean - a.mean;
  const double share = static_cast<double>(b.count) / total;
  a.mean += delta * share;
  a.deviations += b.deviations + delta * delta * static_cast<double>(a.count) * share;
  a.count += b.count;
  a.sum += b.sum;
  a.sum_squares += b.sum_squares;
  a.min = std::min(a.min, b.min);
  a.max = std::max(a.max, b.max);
}

ChannelStatistics result_of(const ChannelSums& s, DType dtype) {
  ChannelStatistics result{.min = s.min, .max = s.max};
  const double n = static_cast<double>(s.count);
  if (dtype == DType::f32) {
    result.mean = s.mean;
    result.std = std::sqrt(s.deviations / n);
  } else {
    // n·Σx² - (Σx)² is exact in 128 bits; in double it would cancel.
    __extension__ using Wide = unsigned __int128;
    const Wide spread = Wide{s.count} * s.sum_squares - Wide{s.sum} * s.sum;
    result.mean = static_cast<double>(s.sum) / n;
    result.std = std::sqrt(static_cast<double>(spread)) / n;
  }
  return result;
}

}  // namespace

Statistics::Statistics(const ImageFormat& format)
    : format_(format), channels_(static_cast<std::size_t>(format.channels)) {}

void Statistics::add(std::span<const std::byte> image, std::span<const std::byte> valid) {
  DDPM_CHECK(image.size() == format_.bytes(), "an image of {} bytes, {} wanted", image.size(), format_.bytes());
  const Pixels pixels{.values = image, .valid = valid, .count = format_.pixels(), .channels = format_.channels};
  for (int64_t c = 0; c < format_.channels; ++c) {
    const auto sums_of = format_.dtype == DType::u8 ? sums_of_u8 : sums_of_f32;
    merge_into(channels_[static_cast<std::size_t>(c)], sums_of(pixels, c));
  }
}

void Statistics::merge(const Statistics& other) {
  DDPM_CHECK(format_ == other.format_, "statistics of different image formats");
  for (std::size_t c = 0; c < channels_.size(); ++c) merge_into(channels_[c], other.channels_[c]);
}

std::vector<ChannelStatistics> Statistics::result() const {
  std::vector<ChannelStatistics> all;
  for (const ChannelSums& sums : channels_) {
    DDPM_CHECK(sums.count > 0, "statistics of no image");
    all.push_back(result_of(sums, format_.dtype));
  }
  return all;
}

base::OrderedJson Statistics::to_json() const {
  base::OrderedJson all = base::OrderedJson::array();
  for (const ChannelSums& s : channels_) {
    // JSON has no infinities: without values there is no range.
    if (s.count == 0) {
      all.push_back({{"count", 0}});
    } else if (format_.dtype == DType::u8) {
      all.push_back(
          {{"count", s.count}, {"sum", s.sum}, {"sum_squares", s.sum_squares}, {"min", s.min}, {"max", s.max}});
    } else {
      all.push_back(
          {{"count", s.count}, {"mean", s.mean}, {"deviations", s.deviations}, {"min", s.min}, {"max", s.max}});
    }
  }
  return all;
}

Statistics Statistics::from_json(const ImageFormat& format, const base::Json& json) {
  Statistics statistics(format);
  try {
    if (json.size() != statistics.channels_.size()) throw std::invalid_argument("another number of channels");
    for (std::size_t c = 0; c < json.size(); ++c) {
      const base::Json& item = json.at(c);
      ChannelSums& s = statistics.channels_[c];
      s.count = item.at("count").get<uint64_t>();
      if (s.count == 0) continue;
      s.min = item.at("min").get<double>();
      s.max = item.at("max").get<double>();
      if (format.dtype == DType::u8) {
        s.sum = item.at("sum").get<uint64_t>();
        s.sum_squares = item.at("sum_squares").get<uint64_t>();
      } else {
        s.mean = item.at("mean").get<double>();
        s.deviations = item.at("deviations").get<double>();
      }
    }
  } catch (const std::exception& error) {
    throw base::DatasetError("statistics of a shard: {}", error.what());
  }
  return statistics;
}

}  // namespace ddpm::data
