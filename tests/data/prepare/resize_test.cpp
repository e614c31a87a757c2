#include "data/prepare/resize.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <vector>

#include <gtest/gtest.h>

#include "base/random.h"
#include "support/test_stream.h"

namespace ddpm::data::prepare {
namespace {

Image noise(int width, int height, int channels) {
  Image image(width, height, channels);
  const base::RandomSequence random(3, test::kStream, 0, 0);
  for (std::size_t i = 0; i < image.pixels.size(); ++i) image.pixels[i] = static_cast<uint8_t>(random.bits(i) >> 24U);
  return image;
}

/// Weight of input pixel i for output pixel o, straight from the definition, in double.
std::vector<double> weights(int in, int out, int o) {
  const double scale = double(in) / out;
  const double half = std::max(1.0, scale);
  std::vector<double> w(static_cast<std::size_t>(in));
  double sum = 0;
  for (int i = 0; i < in; ++i) {
    const double distance = std::abs((i + 0.5) - (o + 0.5) * scale) / half;
    sum += w[static_cast<std::size_t>(i)] = std::max(0.0, 1.0 - distance);
  }
  for (double& x : w) x /= sum;
  return w;
}

double exact(const Image& image, int width, int height, int x, int y, int c) {
  const auto columns = weights(image.width, width, x);
  const auto rows = weights(image.height, height, y);
  double value = 0;
  for (int j = 0; j < image.height; ++j) {
    for (int i = 0; i < image.width; ++i) {
      const uint8_t pixel = image.row(j)[static_cast<std::size_t>(i * image.channels + c)];
      value += rows[static_cast<std::size_t>(j)] * columns[static_cast<std::size_t>(i)] * pixel;
    }
  }
  return value;
}

TEST(Resize, IsTheRoundedConvolutionWithATriangle) {
  struct Case {
    int in_width, in_height, channels, width, height;
  };
  for (const Case& t : {Case{37, 23, 3, 8, 5}, Case{64, 64, 1, 32, 32}, Case{5, 4, 3, 11, 9}, Case{1, 1, 3, 4, 4},
                        Case{50, 3, 1, 4, 6}, Case{16, 9, 3, 16, 3}}) {
    const Image image = noise(t.in_width, t.in_height, t.channels);
    const Image out = resize(image, t.width, t.height);
    ASSERT_EQ(out.pixels.size(), static_cast<std::size_t>(t.width * t.height * t.channels));
    for (int y = 0; y < t.height; ++y) {
      for (int x = 0; x < t.width; ++x) {
        for (int c = 0; c < t.channels; ++c) {
          const double wanted = exact(image, t.width, t.height, x, y, c);
          EXPECT_NEAR(out.row(y)[static_cast<std::size_t>(x * t.channels + c)], wanted, 0.501);
        }
      }
    }
  }
}

TEST(Resize, AFlatImageStaysFlatToTheLastLevel) {
  for (const uint8_t level : {uint8_t{0}, uint8_t{1}, uint8_t{127}, uint8_t{254}, uint8_t{255}}) {
    Image image(301, 77, 3);
    std::fill(image.pixels.begin(), image.pixels.end(), level);
    for (const int side : {1, 7, 64, 350}) {
      const Image out = resize(image, side, side);
      EXPECT_TRUE(std::all_of(out.pixels.begin(), out.pixels.end(), [&](uint8_t p) { return p == level; }))
          << int{level} << " " << side;
    }
  }
}

TEST(Resize, AWindowIsAPartOfTheWhole) {
  const Image image = noise(53, 41, 3);
  const Image whole = resize(image, 30, 20);
  const Window window{7, 3, 11, 16};
  const Image part = resize(image, 30, 20, window);
  ASSERT_EQ(part.width, window.width);
  ASSERT_EQ(part.height, window.height);
  for (int y = 0; y < window.height; ++y) {
    const auto row = whole.row(window.y + y).subspan(static_cast<std::size_t>(window.x) * 3, part.row_size());
    EXPECT_TRUE(std::equal(row.begin(), row.end(), part.row(y).begin())) << y;
  }
}

TEST(Resize, AnAxisOfTheRightLengthIsNotTouched) {
  const Image image = noise(19, 40, 1);
  EXPECT_EQ(resize(image, 19, 40).pixels, image.pixels);
}

}  // namespace
}  // namespace ddpm::data::prepare
