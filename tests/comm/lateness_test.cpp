#include "comm/lateness.h"

#include <array>

#include <gtest/gtest.h>

namespace ddpm::comm {
namespace {

constexpr Deadlines kDeadlines{.init_s = 100, .step_s = 10, .checkpoint_s = 50, .validation_s = 30, .check_s = 20};

RankState at(Phase phase, int64_t sequence, double age_s, double silent_s = 0.5) {
  return {.phase = phase, .step = 7, .sequence = sequence, .age_s = age_s, .silent_s = silent_s};
}

/// -1: nobody is late.
int blamed(std::span<const RankState> ranks) {
  const auto verdict = find_late(ranks, kDeadlines, 0.0);
  return verdict ? static_cast<int>(verdict->rank) : -1;
}

TEST(Lateness, EveryPhaseHasItsDeadline) {
  const auto late = [](Phase phase, double age_s) {
    return find_late(std::array{at(phase, 1, age_s, 0.0)}, kDeadlines, 0.0).has_value();
  };
  EXPECT_FALSE(late(Phase::start, 99));
  EXPECT_TRUE(late(Phase::start, 101));
  for (const Phase phase : {Phase::images, Phase::model, Phase::gradients, Phase::update}) {
    EXPECT_FALSE(late(phase, 9)) << name_of(phase);
    EXPECT_TRUE(late(phase, 11)) << name_of(phase);
  }
  EXPECT_FALSE(late(Phase::checkpoint, 49));
  EXPECT_TRUE(late(Phase::finish, 51));
  EXPECT_FALSE(late(Phase::validation, 29));
  EXPECT_TRUE(late(Phase::validation, 31));
  for (const Phase phase : {Phase::facts, Phase::links, Phase::reduction, Phase::folder}) {
    EXPECT_FALSE(late(phase, 19)) << name_of(phase);
    EXPECT_TRUE(late(phase, 21)) << name_of(phase);
  }
  EXPECT_FALSE(late(Phase::gone, 1e9));
  EXPECT_FALSE(find_late(std::array{at(Phase::model, 1, 1e9)}, {}, 0.0));  // no deadlines
}

TEST(Lateness, GraceComesOnTop) {
  EXPECT_FALSE(find_late(std::array{at(Phase::model, 1, 12.0)}, kDeadlines, 3.0));
  EXPECT_TRUE(find_late(std::array{at(Phase::model, 1, 13.0)}, kDeadlines, 3.0));
}

TEST(Lateness, TheOneThatHasEnteredTheFewestPhasesKeepsTheOthersWaiting) {
  const std::array ranks{at(Phase::gradients, 9, 10.1), at(Phase::images, 8, 10.0), at(Phase::gradients, 9, 10.3)};
  EXPECT_EQ(blamed(ranks), 1);
}

TEST(Lateness, OneThatWaitsForOthersIsNotTheOneTheyWaitFor) {
  // All write a checkpoint: rank 1 has a slow disk, the others wait in a collective of the same phase.
  std::array ranks{at(Phase::checkpoint, 9, 52.0), at(Phase::checkpoint, 9, 51.0), at(Phase::checkpoint, 9, 53.0)};
  ranks[0].waiting = ranks[2].waiting = true;
  EXPECT_EQ(blamed(ranks), 1);
}

TEST(Lateness, ASilentProcessIsBlamedFirst) {
  // Rank 2 was stopped after it had entered the phase in which all wait.
  const std::array ranks{at(Phase::gradients, 9, 10.1), at(Phase::gradients, 8, 10.0),
                         at(Phase::gradients, 9, 0.1, 10.0)};
  EXPECT_EQ(blamed(ranks), 2);
}

TEST(Lateness, ARankThatHasLeftIsNotToBlame) {
  const std::array ranks{at(Phase::gone, 0, 0.0, 60.0), at(Phase::finish, 12, 51.0)};
  EXPECT_EQ(blamed(ranks), 1);
}

TEST(Lateness, TheDeadlineThatCountsIsTheOneThatWasMissed) {
  // Rank 1 was stopped so early that rank 0 knows it as starting.
  const std::array ranks{at(Phase::gradients, 9, 10.1), at(Phase::start, 0, 0.9, 10.0)};
  const auto verdict = find_late(ranks, kDeadlines, 0.0);
  ASSERT_TRUE(verdict);
  EXPECT_EQ(verdict->rank, 1U);
  EXPECT_EQ(verdict->missed, Phase::gradients);
  EXPECT_EQ(describe(ranks[1], verdict->missed, kDeadlines),
            "is late: 11 s in starting, silent for 10 s; fault.step_timeout_s = 10");
}

TEST(Lateness, SaysWhereForHowLongAndWhichKey) {
  EXPECT_EQ(describe(at(Phase::gradients, 9, 1.0, 30.0), Phase::gradients, kDeadlines),
            "is late: 31 s in summing gradients at step 7, silent for 30 s; fault.step_timeout_s = 10");
  EXPECT_EQ(describe({.age_s = 101.0}, Phase::start, kDeadlines),
            "is late: 101 s in starting; fault.init_timeout_s = 100");
  EXPECT_EQ(describe(at(Phase::links, 3, 21.0), Phase::links, kDeadlines),
            "is late: 22 s in messages between two ranks; --timeout = 20");
}

}  // namespace
}  // namespace ddpm::comm
