#include "comm/clock_offset.h"

#include <cmath>

#include <gtest/gtest.h>

#include "base/clock.h"
#include "support/mpi_test.h"

namespace ddpm::comm {
namespace {

constexpr double kRounding_s = 1e-6;  // a double holds seconds since 1970 to a quarter of this

TEST(Clocks, OfOneHostAreNoFurtherApartThanIsKnown) {
  for (double (*clock)() : {base::unix_seconds, base::steady_seconds}) {
    const auto offsets = measure_clocks(test::world(), clock);
    ASSERT_EQ(offsets.size(), static_cast<std::size_t>(test::world().size()));
    EXPECT_EQ(offsets[0].offset_s, 0.0);
    for (const ClockOffset& offset : offsets) EXPECT_LE(std::abs(offset.offset_s), offset.uncertainty_s + kRounding_s);
  }
}

/// Each rank's clock is ahead of the one before by this.
double fast_by_rank() { return base::steady_seconds() + 100.0 * test::world().rank(); }

TEST(Clocks, ThatAreAheadAreTold) {
  const auto offsets = measure_clocks(test::world(), fast_by_rank);
  for (std::size_t rank = 0; rank < offsets.size(); ++rank) {
    EXPECT_NEAR(offsets[rank].offset_s, 100.0 * static_cast<double>(rank), offsets[rank].uncertainty_s + kRounding_s);
  }
}

}  // namespace
}  // namespace ddpm::comm
