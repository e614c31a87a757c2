#include "base/fft.h"

#include <cmath>
#include <numbers>
#include <numeric>
#include <utility>

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/random.h"

namespace ddpm::base {
namespace {

using Complex = std::complex<double>;
using Sizes = std::vector<std::size_t>;

std::size_t elements(const Sizes& sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), std::size_t{1}, std::multiplies<>());
}

std::vector<Complex> some_values(std::size_t count) {
  const RandomSequence random(7, Stream::noise, 0, count);
  std::vector<Complex> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = {random.uniform(2 * i) - 0.5, random.uniform(2 * i + 1) - 0.5};
  return values;
}

/// The definition: each frequency is a sum over all elements.
std::vector<Complex> defined(const Sizes& sizes, const std::vector<Complex>& values, double sign) {
  std::vector<Complex> result(values.size());
  for (std::size_t k = 0; k < values.size(); ++k) {
    for (std::size_t x = 0; x < values.size(); ++x) {
      double turns = 0.0;
      std::size_t k_rest = k;
      std::size_t x_rest = x;
      for (std::size_t axis = sizes.size(); axis-- > 0;) {
        const std::size_t n = sizes[axis];
        turns += static_cast<double>((k_rest % n) * (x_rest % n) % n) / static_cast<double>(n);
        k_rest /= n;
        x_rest /= n;
      }
      result[k] += values[x] * std::polar(1.0, sign * 2.0 * std::numbers::pi * turns);
    }
  }
  return result;
}

double distance(const std::vector<Complex>& a, const std::vector<Complex>& b) {
  double largest = a.size() == b.size() ? 0.0 : HUGE_VAL;
  for (std::size_t i = 0; i < a.size() && i < b.size(); ++i) largest = std::max(largest, std::abs(a[i] - b[i]));
  return largest;
}

class FourierOf : public testing::TestWithParam<Sizes> {};

TEST_P(FourierOf, ComplexArraysIsTheSumThatDefinesIt) {
  const std::vector<Complex> values = some_values(elements(GetParam()));
  Fourier fourier(GetParam());
  std::vector<Complex> transformed = values;
  fourier.forward(transformed);
  EXPECT_LT(distance(transformed, defined(GetParam(), values, -1.0)), 1e-12);
  fourier.inverse(transformed);
  EXPECT_LT(distance(transformed, values), 1e-14);
}

TEST_P(FourierOf, RealArraysIsHalfOfThatOfComplexOnes) {
  const std::vector<Complex> complex_values = some_values(elements(GetParam()));
  std::vector<double> values;
  values.reserve(complex_values.size());
  std::vector<Complex> whole;
  for (const Complex value : complex_values) values.push_back(value.real());
  whole.assign(values.begin(), values.end());
  Fourier fourier(GetParam());
  fourier.forward(whole);
  std::vector<Complex> half(fourier.half_size());
  fourier.forward_real(values, half);
  const std::size_t n = GetParam().back();
  std::vector<Complex> wanted;
  for (std::size_t k = 0; k < whole.size(); ++k) {
    if (k % n <= n / 2) wanted.push_back(whole[k]);
  }
  EXPECT_LT(distance(half, wanted), 1e-13);

  std::vector<double> back(values.size());
  fourier.inverse_real(half, back);
  for (std::size_t i = 0; i < back.size(); ++i) ASSERT_NEAR(back[i], values[i], 1e-14);
}

INSTANTIATE_TEST_SUITE_P(Shapes, FourierOf,
                         testing::Values(Sizes{1}, Sizes{2}, Sizes{7}, Sizes{8}, Sizes{1, 5}, Sizes{5, 1}, Sizes{6, 9},
                                         Sizes{3, 4, 5}, Sizes{4, 11, 6}, Sizes{2, 3, 2, 4}));

TEST(Fourier, RefusesArraysOfOtherSizesAndEmptyAxes) {
  Fourier fourier({4, 4});
  std::vector<Complex> values(15);
  EXPECT_THROW(fourier.forward(values), InternalError);
  EXPECT_THROW(Fourier({4, 0}), InternalError);
}

}  // namespace
}  // namespace ddpm::base
