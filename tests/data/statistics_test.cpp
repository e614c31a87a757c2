#include "data/statistics.h"

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "data/sample_set.h"

namespace ddpm::data {
namespace {

constexpr ImageFormat kU8 = {.height = 3, .width = 5, .channels = 2, .dtype = base::DType::u8};
constexpr ImageFormat kF32 = {.height = 3, .width = 5, .channels = 2, .dtype = base::DType::f32};

double value_of(const ImageFormat& format, const std::vector<std::byte>& image, int64_t element) {
  if (format.dtype == base::DType::u8) return std::to_integer<int>(image[static_cast<std::size_t>(element)]);
  float value = 0.0F;
  std::memcpy(&value, image.data() + element * 4, sizeof(value));
  return value;
}

/// The plain two-pass definition, in long double.
ChannelStatistics by_definition(const ImageFormat& format, int64_t images, int64_t channel) {
  std::vector<double> values;
  for (int64_t i = 0; i < images; ++i) {
    const auto image = sample_image(format, i);
    for (int64_t p = 0; p < format.pixels(); ++p)
      values.push_back(value_of(format, image, p * format.channels + channel));
  }
  long double mean = 0;
  for (const double v : values) mean += v;
  mean /= static_cast<long double>(values.size());
  long double spread = 0;
  for (const double v : values) spread += (v - mean) * (v - mean);
  return {.mean = static_cast<double>(mean),
          .std = static_cast<double>(std::sqrt(spread / static_cast<long double>(values.size()))),
          .min = *std::ranges::min_element(values),
          .max = *std::ranges::max_element(values)};
}

Statistics of_images(const ImageFormat& format, int64_t first, int64_t end) {
  Statistics statistics(format);
  for (int64_t i = first; i < end; ++i) statistics.add(sample_image(format, i));
  return statistics;
}

class StatisticsTest : public testing::TestWithParam<ImageFormat> {};

TEST_P(StatisticsTest, AreThoseOfTheDefinition) {
  const auto result = of_images(GetParam(), 0, 50).result();
  ASSERT_EQ(result.size(), 2U);
  for (int64_t c = 0; c < 2; ++c) {
    const ChannelStatistics wanted = by_definition(GetParam(), 50, c);
    const ChannelStatistics& seen = result[static_cast<std::size_t>(c)];
    EXPECT_NEAR(seen.mean, wanted.mean, 1e-12 * std::abs(wanted.max));
    EXPECT_NEAR(seen.std, wanted.std, 1e-12 * wanted.std);
    EXPECT_EQ(seen.min, wanted.min);
    EXPECT_EQ(seen.max, wanted.max);
  }
}

TEST_P(StatisticsTest, SurviveJson) {
  const Statistics statistics = of_images(GetParam(), 0, 5);
  const base::Json json = base::Json::parse(statistics.to_json().dump());
  EXPECT_EQ(Statistics::from_json(GetParam(), json), statistics);
  const Statistics none(GetParam());
  EXPECT_EQ(Statistics::from_json(GetParam(), base::Json::parse(none.to_json().dump())), none);
  EXPECT_THROW(Statistics::from_json(GetParam(), base::Json::parse("[{\"count\": 1}]")), base::DatasetError);
}

INSTANTIATE_TEST_SUITE_P(Types, StatisticsTest, testing::Values(kU8, kF32));

TEST(Statistics, OfBytesAreExactInAnyOrder) {
  Statistics forward = of_images(kU8, 0, 10);
  forward.merge(of_images(kU8, 10, 50));
  Statistics backward = of_images(kU8, 33, 50);
  backward.merge(of_images(kU8, 0, 33));
  EXPECT_EQ(forward.result(), of_images(kU8, 0, 50).result());
  EXPECT_EQ(backward.result(), forward.result());
}

TEST(Statistics, DoNotCancelFarFromZero) {
  const ImageFormat format{.height = 1, .width = 2, .channels = 1, .dtype = base::DType::f32};
  Statistics statistics(format);
  for (const std::array<float, 2> image :
       {std::array{16777214.0F, 16777215.0F}, std::array{16777216.0F, 16777215.0F}}) {
    statistics.add(std::as_bytes(std::span(image)));
  }
  EXPECT_DOUBLE_EQ(statistics.result()[0].mean, 16777215.0);
  EXPECT_DOUBLE_EQ(statistics.result()[0].std, std::sqrt(0.5));
}

}  // namespace
}  // namespace ddpm::data
