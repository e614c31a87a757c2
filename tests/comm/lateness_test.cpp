#include "comm/lateness.h"

#include <array>
#include <chrono>

#include <gtest/gtest.h>

namespace ddpm::comm {
namespace {

const Phase kStart{.name = "starting", .deadline_s = 100, .key = "fault.init_timeout_s"};
const Phase kModel{.name = "forward and backward", .deadline_s = 10, .key = "fault.step_timeout_s"};
const Phase kGradients{.name = "summing gradients", .deadline_s = 10, .key = "fault.step_timeout_s"};
const Phase kCheckpoint{.name = "the checkpoint", .deadline_s = 50, .key = "fault.checkpoint_timeout_s"};
const Phase kCreate{.name = "data create", .deadline_s = 20, .key = "THE_VARIABLE", .by_progress = true};

RankState at(const Phase& phase, int64_t sequence, double age_s, double silent_s = 0.5) {
  return {.phase = phase, .step = 7, .sequence = sequence, .age_s = age_s, .silent_s = silent_s};
}

/// -1: nobody is late.
int blamed(std::span<const RankState> ranks) {
  const auto verdict = find_late(ranks, 0);
  return verdict ? static_cast<int>(verdict->rank) : -1;
}

TEST(Lateness, EveryPhaseHasItsDeadline) {
  const auto late = [](const Phase& phase, double age_s) {
    return find_late(std::array{at(phase, 1, age_s, 0.0)}, 0).has_value();
  };
  for (const Phase& phase : {kStart, kModel, kCheckpoint, kCreate}) {
    EXPECT_FALSE(late(phase, phase.deadline_s - 1)) << phase.name;
    EXPECT_TRUE(late(phase, phase.deadline_s + 1)) << phase.name;
  }
  EXPECT_FALSE(late(Phase::nothing(), 1e9));
  EXPECT_FALSE(late({.name = "for ever", .key = {}}, 1e9));
}

TEST(Lateness, TheRanksActOneAfterTheOther) {
  const auto seconds_late = [](double deadline_s, int turn) {
    for (double late_s = 0.0;; late_s += 0.25) {
      const Phase phase{.name = "reading images", .deadline_s = deadline_s, .key = "fault.step_timeout_s"};
      if (find_late(std::array{at(phase, 1, deadline_s + late_s + 0.125, 0.0)}, turn)) return late_s;
    }
  };
  for (const int turn : {0, 1, 2}) {
    EXPECT_EQ(seconds_late(900.0, turn), turn * 3.0);
    EXPECT_EQ(seconds_late(1.0, turn), turn * 1.0);
  }
}

TEST(Lateness, TheOneThatHasEnteredTheFewestPhasesKeepsTheOthersWaiting) {
  const std::array ranks{at(kGradients, 9, 10.1), at(kModel, 8, 10.0), at(kGradients, 9, 10.3)};
  EXPECT_EQ(blamed(ranks), 1);
}

TEST(Lateness, OneThatWaitsForOthersIsNotTheOneTheyWaitFor) {
  // All write a checkpoint: rank 1 has a slow disk, the others wait in a collective of the same phase.
  std::array ranks{at(kCheckpoint, 9, 52.0), at(kCheckpoint, 9, 51.0), at(kCheckpoint, 9, 53.0)};
  ranks[0].waiting = ranks[2].waiting = true;
  EXPECT_EQ(blamed(ranks), 1);
}

TEST(Lateness, ASilentProcessIsBlamedFirst) {
  // Rank 2 was stopped after it had entered the phase in which all wait.
  const std::array ranks{at(kGradients, 9, 10.1), at(kGradients, 8, 10.0), at(kGradients, 9, 0.1, 10.0)};
  EXPECT_EQ(blamed(ranks), 2);
}

TEST(Lateness, ARankThatHasLeftIsNotToBlame) {
  const std::array ranks{at(Phase::nothing(), 0, 0.0, 60.0), at(kCheckpoint, 12, 51.0)};
  EXPECT_EQ(blamed(ranks), 1);
}

TEST(Lateness, TheDeadlineThatCountsIsTheOneThatWasMissed) {
  // Rank 1 was stopped so early that rank 0 knows it as starting.
  const std::array ranks{at(kGradients, 9, 10.1), RankState{.phase = kStart, .age_s = 0.9, .silent_s = 10.0}};
  const auto verdict = find_late(ranks, 0);
  ASSERT_TRUE(verdict);
  EXPECT_EQ(verdict->rank, 1U);
  EXPECT_EQ(verdict->missed.name, kGradients.name);
  EXPECT_EQ(describe(ranks[1], verdict->missed),
            "is late: 11 s in starting, silent for 10 s; fault.step_timeout_s = 10");
}

TEST(Lateness, APauseBetweenTwoLooksCountsForNoMoreThanTwoSeconds) {
  using std::chrono::seconds;
  const SeenTime::Clock::time_point start{};
  SeenTime seen(start);
  seen.look(start + seconds(1));
  seen.look(start + seconds(3));
  EXPECT_EQ(seen.seconds(start), 3.0);
  seen.look(start + seconds(3603));
  seen.look(start + seconds(3604));
  EXPECT_EQ(seen.seconds(start), 6.0);
  // What began within the pause, as another rank says, has not been seen for longer than since its end.
  EXPECT_EQ(seen.seconds(start + seconds(1000)), 1.0);
  EXPECT_EQ(seen.seconds(start + seconds(3602)), 1.0);
  EXPECT_EQ(seen.seconds(start + seconds(3603)), 1.0);
  EXPECT_EQ(seen.seconds(start + seconds(3605)), 0.0);
}

TEST(Lateness, APauseBetweenALookAndAVerdictIsNotSeen) {
  const SeenTime::Clock::time_point now = SeenTime::Clock::now();
  const SeenTime::Clock::time_point look = now - std::chrono::hours(1);
  SeenTime seen(look);  // the process was stopped right after it, and is to judge now
  EXPECT_EQ(seen.seconds(look), 0.0);
  seen.look(now);
  EXPECT_EQ(seen.seconds(look), kLongestLook);
}

TEST(Lateness, ALivingRankSpeaksSeveralTimesInItsDeadline) {
  EXPECT_EQ(seconds_until_next_word(900.0), 1.0);
  EXPECT_EQ(seconds_until_next_word(0.0), 1.0);  // no deadline
  EXPECT_EQ(seconds_until_next_word(1.0), 0.25);
}

TEST(Lateness, ARankMayHaveLeftItsPhaseSinceItsLastWord) {
  const Phase phase{.name = "reading images", .deadline_s = 2, .key = "fault.step_timeout_s"};
  EXPECT_EQ(blamed(std::array{at(phase, 1, 1.6, 0.45)}), -1);
  EXPECT_EQ(blamed(std::array{at(phase, 1, 1.6, 1.0)}), 0) << "it would have spoken again";
  EXPECT_EQ(blamed(std::array{at(phase, 1, 2.1, 0.0)}), 0) << "it says so itself";
}

TEST(Lateness, AWatchdogThatSeldomLooksSeesTimeGoBy) {
  const SeenTime::Clock::time_point start{};
  SeenTime seen(start);
  for (int i = 1; i <= 5000; ++i) seen.look(start + std::chrono::seconds(3 * i));
  EXPECT_GE(seen.seconds(start), 10000.0);
}

TEST(Lateness, SaysWhereForHowLongAndWhichKey) {
  EXPECT_EQ(describe(at(kGradients, 9, 1.0, 30.0), kGradients),
            "is late: 31 s in summing gradients at step 7, silent for 30 s; fault.step_timeout_s = 10");
  EXPECT_EQ(describe({.phase = kStart, .age_s = 101.0}, kStart),
            "is late: 101 s in starting; fault.init_timeout_s = 100");
  EXPECT_EQ(describe({.phase = kCreate, .sequence = 3, .age_s = 21.0}, kCreate),
            "is late: 21 s without progress in data create; THE_VARIABLE = 20");
}

}  // namespace
}  // namespace ddpm::comm
