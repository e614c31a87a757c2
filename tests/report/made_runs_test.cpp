// What is said of runs whose logs are made here: losses of known shapes, with noise, and what lies beside them.
#include <cmath>
#include <functional>
#include <limits>
#include <numbers>
#include <random>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "report/judgement.h"

namespace ddpm::report {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

/// What `ddpm train` would have logged, of losses and rates that are functions of the step.
struct MadeRun {
  int64_t steps = 6000;
  int64_t every = 10;
  int64_t total = 12'000;
  std::function<double(int64_t)> loss;
  double noise = 0.03;  ///< deviation of the loss, as a share of it
  std::function<double(int64_t)> validation = nullptr;
  int64_t validated_every = 200;
  std::function<double(int64_t)> rate = [](int64_t) { return 1e-4; };
  const char* schedule = "\"constant\"";
  std::vector<int64_t> checkpoints = {6000, 5000};
  bool finished = false;
};

constexpr double kNow = 1e9;

/// The run as it is while it trains.
RunRecord record_of(const MadeRun& made) {
  std::mt19937_64 random(1);
  std::normal_distribution<double> normal;
  RunRecord run;
  run.settings = {{"lr_schedule.name", made.schedule}};
  for (int64_t step = made.every; step <= made.steps; step += made.every) {
    observe::StepMetrics one;
    one.step = step;
    one.loss = made.loss(step) * (1.0 + made.noise * normal(random));
    one.learning_rate = made.rate(step);
    one.gradient_norm = std::isfinite(one.loss) ? 0.5 : kNaN;
    if (made.validation && step % made.validated_every == 0) {
      one.validation_loss = made.validation(step) * (1.0 + 0.001 * normal(random));
    }
    run.metrics.push_back(one);
  }
  run.usage = {{.start = "a", .from = 0, .to = made.steps, .total = made.total}};
  for (const int64_t step : made.checkpoints) run.checkpoints.push_back({.step = step, .written = kNow});
  run.has_model = made.finished;
  if (!made.finished) run.lock = LockFacts{.owner = "process 17 on node01", .renewed = kNow};
  return run;
}

Finding counsel_on(const RunRecord& run) { return judge(measures_of(run, kNow)).counsel; }

std::string about_of(const MadeRun& made) {
  const Finding counsel = counsel_on(record_of(made));
  return counsel.about + ". " + counsel.text;
}

/// All that is said of a run, the counsel first.
std::string said_of(const RunRecord& run) {
  const Judgement judgement = judge(measures_of(run, kNow));
  std::string text = judgement.counsel.about + ". " + judgement.counsel.text;
  for (const Finding& finding : judgement.findings) text += fmt::format("\n{}. {}", finding.about, finding.text);
  return text;
}

// The numbers of these are those of a reader who was told to let such runs run.
TEST(MadeRuns, ALossThatHasLeftItsLowestLevelForGoodHasDiverged) {
  const auto collapse = [](int64_t step) { return step < 3000 ? 0.05 : 1.0; };
  MadeRun made{.loss = collapse, .validation = collapse};
  EXPECT_THAT(about_of(made), testing::StartsWith("Stop it. The training loss has diverged: since about step 3,000"));
  EXPECT_THAT(about_of(made), testing::HasSubstr("No checkpoint from before is there"));
  made.checkpoints = {6000, 2500, 2000};
  EXPECT_THAT(about_of(made), testing::HasSubstr("checkpoint of step 2,500, the newest from before"));
  made.validation = nullptr;
  EXPECT_THAT(about_of(made), testing::StartsWith("Stop it. The training loss has diverged"));
  made.finished = true;
  made.total = 6000;
  made.schedule = "\"cosine\"";
  made.rate = [](int64_t step) {
    return 5e-5 * (1.0 + std::cos(std::numbers::pi * static_cast<double>(step) / 6000.0));
  };
  EXPECT_THAT(about_of(made), testing::StartsWith("Finished, but look into it. Its model is written. The training "));
  const Measures m = measures_of(record_of(made), kNow);
  ASSERT_TRUE(m.divergence);
  EXPECT_NEAR(static_cast<double>(m.divergence->step), 3000.0, 20.0);
  EXPECT_NEAR(m.divergence->lowest, 0.05, 0.002);

  made = {.steps = 400, .loss = [](int64_t step) { return std::exp(static_cast<double>(step) / 8.0); }, .noise = 0.2};
  EXPECT_THAT(about_of(made), testing::StartsWith("Stop it. The training loss has diverged"));
}

TEST(MadeRuns, AValidationLossFarAboveItsBestIsSaid) {
  const MadeRun made{.loss = [](int64_t) { return 0.05; },
                     .validation = [](int64_t step) { return step < 3000 ? 0.05 : 1.0; },
                     .checkpoints = {6000, 2800}};
  EXPECT_THAT(about_of(made), testing::StartsWith("Look into it. For 3 validations the validation loss has been 20"));
}

TEST(MadeRuns, OrdinaryLossesHaveNotDiverged) {
  const auto ordinary = [](const MadeRun& made, const char* what) {
    for (const int64_t every : {2, 10, 150}) {
      MadeRun same = made;
      same.every = every;
      same.validated_every = every * 20;
      const Finding counsel = counsel_on(record_of(same));
      EXPECT_NE(counsel.tone, Tone::bad) << what << ", every " << every << ": " << counsel.text;
      EXPECT_FALSE(measures_of(record_of(same), kNow).divergence) << what;
    }
  };
  const auto flat = [](int64_t) { return 0.05; };
  ordinary({.loss = flat, .noise = 0.03}, "flat");
  ordinary({.loss = flat, .noise = 0.3}, "flat and noisy");
  ordinary({.loss = [](int64_t step) { return 0.05 + 20.0 * std::exp(-static_cast<double>(step) / 50.0); }},
           "high at first");
  ordinary({.loss = [](int64_t step) { return step > 5000 && step < 5080 ? 50.0 : 0.05; }}, "a spike that has passed");
  ordinary({.loss = [](int64_t step) { return step > 5880 && step < 5960 ? 50.0 : 0.05; }}, "one that has just passed");
  ordinary({.loss = [](int64_t step) { return step > 1000 && step < 2500 ? 1.0 : 0.05; }}, "a long one");
  ordinary({.loss = [](int64_t step) { return step < 3000 ? 0.05 : 0.045; },
            .rate = [](int64_t step) { return step < 3000 ? 1e-3 : 1e-4; }},
           "a rate that was lowered");
  ordinary({.loss = [](int64_t step) { return step < 3000 ? 0.05 : 0.06; },
            .rate = [](int64_t step) { return step < 3000 ? 1e-4 : 1e-3; }},
           "a rate that was raised");
}

TEST(MadeRuns, NoiseOfAnySizeHasNotDiverged) {
  std::mt19937_64 random(7);
  std::normal_distribution<double> normal;
  for (int trial = 0; trial < 200; ++trial) {
    std::vector<int64_t> steps;
    std::vector<double> values;
    for (int64_t i = 1; i <= 30 + 20 * trial; ++i) {
      steps.push_back(i);
      values.push_back(std::exp(1.2 * normal(random)));
    }
    EXPECT_FALSE(divergence_of(steps, values)) << trial;
  }
}

TEST(MadeRuns, ARiseIsNoneWhereASpikeMakesIt) {
  const auto direction = [](int64_t first, int64_t last) {
    const RunRecord run = record_of(
        {.loss = [=](int64_t step) { return step >= first && step <= last ? 5.0 : 0.05; }, .checkpoints = {}});
    return measures_of(run, kNow).loss->direction;
  };
  EXPECT_EQ(direction(5850, 5930), Direction::unknown);
  EXPECT_EQ(direction(4200, 4350), Direction::unknown);
  EXPECT_EQ(direction(5000, 6000), Direction::rising);
}

TEST(MadeRuns, MoreStepsBringSomethingWhileValidationFalls) {
  MadeRun made{.loss = [](int64_t) { return 0.05; },
               .validation = [](int64_t step) { return 0.06 * std::exp(-static_cast<double>(step) / 15'000.0); }};
  EXPECT_THAT(about_of(made),
              testing::StartsWith("Let it run. The training loss is flat, but the validation loss is "));
  made.finished = true;
  made.total = 6000;
  EXPECT_THAT(about_of(made), testing::HasSubstr("The validation loss was still falling"));
}

TEST(MadeRuns, NothingIsSaidToBringLittleWhileTheRateRises) {
  const MadeRun made{.steps = 3000,
                     .total = 40'000,
                     .loss = [](int64_t) { return 1.0; },
                     .noise = 0.02,
                     .rate = [](int64_t step) { return 1e-4 * static_cast<double>(step) / 20'000.0; },
                     .schedule = "\"constant_with_warmup\""};
  EXPECT_THAT(about_of(made), testing::StartsWith("Let it run. The loss is flat while the learning rate still rises"));
}

TEST(MadeRuns, ValidationsOfAnotherSetAreNotCounted) {
  MadeRun made{.steps = 280,
               .every = 2,
               .loss = [](int64_t step) { return 0.5 - 0.001 * static_cast<double>(step); },
               .validation = [](int64_t step) { return step <= 200 ? 0.3 : 0.7 - 0.0005 * static_cast<double>(step); },
               .validated_every = 10,
               .checkpoints = {280, 270}};
  RunRecord run = record_of(made);
  run.usage = {{.start = "a", .from = 0, .to = 200, .images = "x", .validation = "3 images"},
               {.start = "b", .from = 200, .to = 280, .images = "x", .validation = "300 images"}};
  const Measures m = measures_of(run, kNow);
  EXPECT_EQ(m.other_validation, 200);
  ASSERT_TRUE(m.validation);
  EXPECT_EQ(m.validation->count, 8);
  EXPECT_EQ(m.validation->best_step, 280);
  EXPECT_NE(judge(m).counsel.tone, Tone::bad) << judge(m).counsel.text;
  EXPECT_THAT(said_of(run), testing::HasSubstr("up to step 200 is of another set"));
  run.metrics.resize(104);  // nothing was validated on the new set yet
  EXPECT_THAT(said_of(run), testing::HasSubstr("Nothing was validated since step 200"));
}

TEST(MadeRuns, ALossOnOtherImagesIsNotCompared) {
  const MadeRun made{.loss = [](int64_t step) { return step <= 4800 ? 0.05 : 0.2; },
                     .noise = 0.01,
                     .validation = [](int64_t step) { return step <= 4800 ? 0.05 : 0.09; }};
  RunRecord run = record_of(made);
  run.usage = {{.start = "a", .from = 0, .to = 4800, .total = 12'000, .images = "x", .validation = "v"},
               {.start = "b", .from = 4800, .to = 6000, .total = 12'000, .images = "x", .validation = "v"}};
  EXPECT_EQ(counsel_on(run).tone, Tone::bad);
  run.usage[1].images = "y";
  EXPECT_NE(counsel_on(run).tone, Tone::bad) << said_of(run);
  EXPECT_EQ(measures_of(run, kNow).loss->direction, Direction::flat);
}

TEST(MadeRuns, AnErrorIsNotFollowedByHope) {
  const auto breaks = [](int64_t step) {
    return step < 3000 ? 0.05 * std::exp(-static_cast<double>(step) / 4e3) : kNaN;
  };
  RunRecord run = record_of({.loss = breaks});
  run.lock.reset();
  run.usage[0].error = "step 6000: the loss is nan on rank 0";
  EXPECT_THAT(counsel_on(run).text, testing::HasSubstr("No finite loss was logged since step 3,000"));
  EXPECT_THAT(said_of(run), testing::HasSubstr("None of the last 301 logged losses is finite"));
  EXPECT_THAT(said_of(run), testing::Not(testing::HasSubstr("Too few steps")));
  run = record_of({.loss = [](int64_t step) { return 0.05 * std::exp(-static_cast<double>(step) / 4e3); }});
  run.lock.reset();
  run.usage[0].error = "step 6000: the loss is nan on rank 0";
  EXPECT_THAT(counsel_on(run).text, testing::EndsWith("The same command would go on from the newest checkpoint."));
}

TEST(MadeRuns, WhoeverHoldsTheLockMayHaveDied) {
  RunRecord run = record_of({.loss = [](int64_t) { return 0.05; }});
  run.logged = kNow - 12.0;
  EXPECT_THAT(said_of(run), testing::HasSubstr("the last step was logged 12 s ago"));
  run.lock->renewed = kNow - 200.0;
  EXPECT_THAT(said_of(run), testing::HasSubstr("lock was last renewed 3 min ago, which a run does every 30 s"));
  EXPECT_EQ(counsel_on(run).tone, Tone::watch);
  run.lock->ended = true;
  EXPECT_EQ(counsel_on(run).about, "Nobody trains it");
  EXPECT_THAT(said_of(run), testing::HasSubstr("The process that holds its lock has ended."));
}

TEST(MadeRuns, ACheckpointTellsTheStepWhereLogsCannotBeRead) {
  RunRecord run;
  run.checkpoints = {{.step = 50}, {.step = 40}};
  EXPECT_EQ(measures_of(run, kNow).step, 50);
  EXPECT_THAT(said_of(run), testing::HasSubstr("No logged step can be read"));
  run.checkpoints[0].problem = "a shard is short";
  EXPECT_EQ(measures_of(run, kNow).step, 40);
}

}  // namespace
}  // namespace ddpm::report
