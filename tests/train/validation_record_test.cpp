#include "train/validation_record.h"

#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "base/error.h"

namespace ddpm::train {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Seen {
  std::vector<bool> best;
  std::vector<int64_t> waited;
};

/// Steps 10, 20, ...
Seen add_all(ValidationRecord& record, const std::vector<double>& losses, double min_delta = 0.0) {
  Seen seen;
  int64_t step = 0;
  for (const double loss : losses) {
    seen.best.push_back(record.add(step += 10, loss, min_delta));
    seen.waited.push_back(record.waited);
  }
  return seen;
}

TEST(ValidationRecord, TheLowestLossIsTheBest) {
  ValidationRecord record;
  const Seen seen = add_all(record, {0.5, 0.4, 0.45, 0.4, 0.3});
  EXPECT_EQ(seen.best, (std::vector<bool>{true, true, false, false, true}));
  EXPECT_EQ(seen.waited, (std::vector<int64_t>{0, 0, 1, 2, 0}));
  EXPECT_EQ(record.best_loss, 0.3);
  EXPECT_EQ(record.best_step, 50);
}

TEST(ValidationRecord, ATieKeepsTheEarlierStep) {
  ValidationRecord record;
  add_all(record, {0.5, 0.5});
  EXPECT_EQ(record.best_step, 10);
}

/// Each step down is below min_delta, but together they are more: the best is always the lowest, and waiting ends where
/// the sum exceeds it.
TEST(ValidationRecord, SmallStepsDownAddUpToAnImprovement) {
  ValidationRecord record;
  const Seen seen = add_all(record, {1.0, 0.75, 0.5, 0.25}, 0.6);
  EXPECT_EQ(seen.best, (std::vector<bool>{true, true, true, true}));
  EXPECT_EQ(seen.waited, (std::vector<int64_t>{0, 1, 2, 0}));
  EXPECT_EQ(record.improved_loss, 0.25);
}

TEST(ValidationRecord, MinDeltaItselfIsNoImprovement) {
  ValidationRecord record;
  EXPECT_EQ(add_all(record, {1.0, 0.5}, 0.5).waited.back(), 1);
}

TEST(ValidationRecord, WhatIsNotFiniteIsNeitherBestNorAnImprovement) {
  for (const double odd : {kNaN, kInfinity, -kInfinity}) {
    ValidationRecord record;
    const Seen seen = add_all(record, {odd, 0.5, odd, 0.6});
    EXPECT_EQ(seen.best, (std::vector<bool>{false, true, false, false})) << odd;
    EXPECT_EQ(seen.waited, (std::vector<int64_t>{1, 0, 1, 2})) << odd;
    EXPECT_EQ(record.best_step, 20) << odd;
  }
}

TEST(ValidationRecord, PatienceEndsAfterThatManyValidationsWithoutImprovement) {
  ValidationRecord record;
  add_all(record, {0.5, 0.6});
  EXPECT_FALSE(record.out_of_patience(2));
  EXPECT_TRUE(record.out_of_patience(1));
  record.add(30, 0.7, 0.0);
  EXPECT_TRUE(record.out_of_patience(2));
  EXPECT_FALSE(record.out_of_patience(0)) << "0 is off";
  record.add(40, 0.1, 0.0);
  EXPECT_FALSE(record.out_of_patience(1));
}

TEST(ValidationRecord, ACheckpointKeepsEveryBit) {
  ValidationRecord record;
  record.set = "37 images of 1234";
  add_all(record, {0.1 + 0.2, 1.0 / 3.0, 0.7}, 0.1);
  base::Json state = {{"step", 3}};
  write_validation_record(record, state);
  const ValidationRecord back = read_validation_record(base::Json::parse(state.dump()), "here");
  EXPECT_EQ(back.set, record.set);
  EXPECT_EQ(back.best_loss, record.best_loss);
  EXPECT_EQ(back.best_step, record.best_step);
  EXPECT_EQ(back.improved_loss, record.improved_loss);
  EXPECT_EQ(back.waited, record.waited);
  for (const auto& [key, value] : state.items()) EXPECT_TRUE(value.is_primitive()) << key;
}

TEST(ValidationRecord, ARunThatWasNeverValidatedLeavesNoTrace) {
  base::Json state = {{"step", 3}};
  write_validation_record({}, state);
  EXPECT_EQ(state.size(), 1U);
  EXPECT_FALSE(read_validation_record(state, "here").best_loss);
}

TEST(ValidationRecord, NoBestWhenNoLossWasFinite) {
  ValidationRecord record;
  record.set = "one";
  add_all(record, {kNaN, kNaN});
  base::Json state;
  write_validation_record(record, state);
  const ValidationRecord back = read_validation_record(state, "here");
  EXPECT_FALSE(back.best_loss);
  EXPECT_EQ(back.waited, 2);
}

TEST(ValidationRecord, DamageIsNamed) {
  for (const base::Json& state :
       {base::Json{{"validation_set", 3}}, base::Json{{"validation_set", "a"}},
        base::Json{{"validation_set", "a"}, {"validation_waited", "x"}},
        base::Json{{"validation_set", "a"}, {"validation_waited", 1e300}},
        base::Json{{"validation_set", "a"}, {"validation_waited", -1}},
        base::Json{{"validation_set", "a"}, {"validation_waited", INT64_MAX}},
        base::Json{{"validation_set", "a"}, {"validation_waited", 0U}, {"validation_improved_loss", "x"}},
        base::Json{{"validation_set", "a"},
                   {"validation_waited", 0U},
                   {"validation_best_loss", 0.5},
                   {"validation_best_step", uint64_t{1} << 63U}},
        base::Json{{"validation_set", "a"}, {"validation_waited", 0}, {"validation_best_loss", 0.5}}}) {
    try {
      read_validation_record(state, "step-00000003");
      ADD_FAILURE() << state.dump();
    } catch (const base::OutputError& error) {
      EXPECT_EQ(std::string(error.what()).find("step-00000003: "), 0U) << error.what();
    }
  }
}

}  // namespace
}  // namespace ddpm::train
