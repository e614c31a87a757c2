#include "checkpoint/retention.h"

#include <gmock/gmock.h>

namespace ddpm::checkpoint {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

bool yes(int64_t /*step*/) { return true; }
bool no(int64_t /*step*/) { return false; }

TEST(Retention, KeepsTheNewestTheMultiplesThePinnedAndTheOneJustWritten) {
  const std::vector<int64_t> steps = {100, 200, 300, 400, 500, 600, 700};
  const auto left_over = [&](int64_t written, int64_t keep_latest, int64_t keep_every, std::set<int64_t> pinned) {
    return superfluous_steps(steps, written, {keep_latest, keep_every, std::move(pinned)}, yes, no);
  };
  EXPECT_THAT(left_over(700, 3, 0, {}), UnorderedElementsAre(100, 200, 300, 400));
  EXPECT_THAT(left_over(700, 2, 300, {100}), UnorderedElementsAre(200, 400, 500));
  EXPECT_THAT(left_over(200, 1, 0, {}), UnorderedElementsAre(100, 300, 400, 500, 600));
  EXPECT_THAT(left_over(700, 0, 0, {}), UnorderedElementsAre(100, 200, 300, 400, 500, 600));
  EXPECT_THAT(left_over(700, 10, 0, {}), IsEmpty());
  EXPECT_THAT(superfluous_steps({100}, 100, {0}, yes, no), IsEmpty());
}

TEST(Retention, TheLastTwoThatWereReadWholeStay) {
  const auto old_ones = [](int64_t step) { return step <= 300; };
  EXPECT_THAT(superfluous_steps({100, 200, 300, 400, 500}, 500, {2}, yes, old_ones), UnorderedElementsAre(100));
  EXPECT_THAT(superfluous_steps({100, 200, 300, 400, 500}, 500, {1}, yes, old_ones),
              UnorderedElementsAre(100, 200, 400));
  // Two checkpoints stay in any case.
  EXPECT_THAT(superfluous_steps({100, 200, 300, 400, 500}, 500, {2}, yes, yes), UnorderedElementsAre(100, 200, 300));
}

TEST(Retention, WhatIsNotWholeNeitherCountsNorGoes) {
  const auto whole = [](int64_t step) { return step != 300 && step != 100; };
  EXPECT_THAT(superfluous_steps({100, 200, 300, 400, 500}, 500, {2}, whole, no), UnorderedElementsAre(200));
  EXPECT_THAT(superfluous_steps({100, 200, 300}, 200, {2}, whole, no), IsEmpty());
}

TEST(Retention, LooksAtTheNewestAndAtWhatWouldGoOnly) {
  std::vector<int64_t> looked_at;
  const auto whole = [&](int64_t step) {
    looked_at.push_back(step);
    return true;
  };
  std::vector<int64_t> steps;
  for (int64_t step = 1; step <= 1000; ++step) steps.push_back(step);
  EXPECT_THAT(superfluous_steps(steps, 1000, {3, 1}, whole, yes), IsEmpty());
  EXPECT_THAT(looked_at, ElementsAre(1000, 999, 998));
  looked_at.clear();
  EXPECT_THAT(superfluous_steps({90, 95, 100, 110, 120}, 120, {2, 100}, whole, yes), ElementsAre(95, 90));
  EXPECT_THAT(looked_at, ElementsAre(120, 110, 95, 90));
}

}  // namespace
}  // namespace ddpm::checkpoint
