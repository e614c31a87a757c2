#include "base/utc_text.h"

#include <gtest/gtest.h>

namespace ddpm::base {
namespace {

// date -u -d @1795571402
constexpr int64_t kSeconds = 1795571402;

TEST(UtcText, HasEachOfItsForms) {
  EXPECT_EQ(utc_text(kSeconds), "2026-11-25T01:50:02Z");
  const auto time = std::chrono::system_clock::time_point(std::chrono::seconds(kSeconds));
  EXPECT_EQ(utc_text_ms(time + std::chrono::microseconds(7999)), "2026-11-25T01:50:02.007Z");
  EXPECT_EQ(utc_text_ns(kSeconds, 42), "2026-11-25 01:50:02.000000042 UTC");
  EXPECT_EQ(utc_minute_text(kSeconds), "2026-11-25 01:50 UTC");
  EXPECT_EQ(utc_text(0), "1970-01-01T00:00:00Z");
}

}  // namespace
}  // namespace ddpm::base
