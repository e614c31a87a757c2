#include "comm/start_deadline.h"

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "comm/deadline.h"

namespace ddpm::comm {
namespace {

/// A rank that the others do not meet. `variable`: the value of the environment's limit; "": it has none.
void wait_in_vain(const char* rank, const char* variable = "") {
  setenv("PMI_RANK", rank, 1);
  setenv(StartDeadline::kVariable, variable, 1);
  const StartDeadline deadline(0.5);
  std::this_thread::sleep_for(std::chrono::seconds(20));
  std::_Exit(0);
}

TEST(StartDeadline, TheFirstTwoRanksSayThatTheRanksHaveNotMet) {
  EXPECT_EXIT(wait_in_vain("0"), testing::ExitedWithCode(5), "rank 0 on .*: the ranks have not met within 0.5 s");
  EXPECT_EXIT(wait_in_vain("1"), testing::ExitedWithCode(5), "rank 1 on .*: the ranks have not met within 0.5 s");
}

TEST(StartDeadline, AWrongValueIsRefusedWhenTheRanksHaveMetAndHoldsNobodyUntilThen) {
  EXPECT_EXIT(wait_in_vain("1", "soon"), testing::ExitedWithCode(5), "the ranks have not met within 0.5 s");
  setenv(StartDeadline::kVariable, "soon", 1);
  EXPECT_THROW(StartDeadline::seconds(0.5), base::ConfigError);
  unsetenv(StartDeadline::kVariable);
}

TEST(Deadline, OfAgesIsNotOver) {
  std::atomic<bool> expired{false};
  {
    const Deadline deadline(1e12, [&] { expired = true; });
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  EXPECT_FALSE(expired);
}

TEST(StartDeadline, TheOthersSayNothingAndLeaveLater) {
  const auto began = std::chrono::steady_clock::now();
  EXPECT_EXIT(wait_in_vain("2"), testing::ExitedWithCode(5), testing::Eq(""));
  EXPECT_GE(std::chrono::steady_clock::now() - began, std::chrono::milliseconds(1000));
}

}  // namespace
}  // namespace ddpm::comm
