#include "data/finite.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include <gmock/gmock.h>

namespace ddpm::data {
namespace {

std::optional<int64_t> first_in(const std::vector<float>& values, std::size_t shift = 0) {
  std::vector<std::byte> bytes(values.size() * sizeof(float) + shift);
  std::memcpy(bytes.data() + shift, values.data(), values.size() * sizeof(float));
  return first_non_finite(std::span(bytes).subspan(shift));
}

TEST(FirstNonFinite, EveryFiniteValueIsFinite) {
  using Limits = std::numeric_limits<float>;
  EXPECT_EQ(first_in({}), std::nullopt);
  EXPECT_EQ(first_in({0.0F, -0.0F, Limits::max(), Limits::lowest(), Limits::min(), Limits::denorm_min(), 288.0F}),
            std::nullopt);
}

TEST(FirstNonFinite, FindsTheFirstWhereverItIs) {
  const float bad[] = {NAN, -NAN, INFINITY, -INFINITY};
  for (const std::size_t at : {0, 1, 7, 1023, 1024, 1025, 2047, 2999}) {
    for (const float value : bad) {
      for (const std::size_t shift : {0, 1, 2, 3}) {
        std::vector<float> values(3000, 1.5F);
        values[at] = value;
        values.back() = NAN;
        EXPECT_EQ(first_in(values, shift), static_cast<int64_t>(at)) << value;
      }
    }
  }
}

}  // namespace
}  // namespace ddpm::data
