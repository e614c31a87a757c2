// What a person is told to do about a run, in each phase and for each thing that may be wrong with it.
#include "report/judgement.h"

#include <gmock/gmock.h>

#include "report/words.h"

namespace ddpm::report {
namespace {

Measures measures_of(Phase phase, Direction loss) {
  Measures m{.phase = phase, .step = 500, .total = 1000, .recent = 100};
  m.loss = Trend{.direction = loss, .first = 350, .last = 500, .blocks = 16, .change = {}, .level = {0.1, 0.09, 0.11}};
  m.learning_rate_share = 0.1;
  m.checkpoint_step = 500;
  m.checkpoint_age = 60.0;
  m.has_model = phase == Phase::finished;
  if (phase == Phase::finished) m.step = 1000;
  return m;
}

Measures overfitting(Phase phase) {
  Measures m = measures_of(phase, Direction::falling);
  m.validation = Validations{.count = 8, .last = 0.2, .best = 0.1, .best_step = 120, .since_best = 5};
  m.validation->trend =
      Trend{.direction = Direction::rising, .first = 120, .last = 500, .blocks = 8, .change = {}, .level = {}};
  m.validation->gap = Interval{0.1, 0.09, 0.11};
  m.validation->gap_at_best = Interval{0.0, -0.01, 0.01};
  return m;
}

Measures skipping(Phase phase) {
  Measures m = measures_of(phase, Direction::falling);
  m.skipped = 30;
  return m;
}

struct Expected {
  std::string about;
  Tone tone;
};

void expect_counsel(const Measures& m, const Expected& expected, const std::string& words) {
  const Finding counsel = judge(m).counsel;
  EXPECT_EQ(counsel.about, expected.about) << counsel.text;
  EXPECT_EQ(counsel.tone, expected.tone) << counsel.text;
  EXPECT_NE(counsel.text.find(words), std::string::npos) << counsel.text;
}

TEST(Words, AChangeIsToldInDigits) {
  EXPECT_EQ(change_text(-1.3), "−130 %");
  EXPECT_EQ(change_text(0.996), "+100 %");
  EXPECT_EQ(change_text(0.042), "+4.2 %");
}

TEST(Judgement, ARunThatTrains) {
  const auto with = [](Direction loss) { return measures_of(Phase::training, loss); };
  expect_counsel(with(Direction::falling), {"Let it run", Tone::good}, "still falling");
  expect_counsel(with(Direction::unknown), {"Let it run", Tone::good}, "cannot be told");
  expect_counsel(with(Direction::flat), {"It may be stopped", Tone::watch}, "bring little");
  expect_counsel(with(Direction::rising), {"Look into it", Tone::bad}, "rising");
  expect_counsel(overfitting(Phase::training), {"Stop it", Tone::bad}, "since step 120");
  expect_counsel(skipping(Phase::training), {"Look into it", Tone::bad}, "skipped");
  Measures unlogged = with(Direction::flat);
  unlogged.loss.reset();
  expect_counsel(unlogged, {"Let it run", Tone::good}, "have to be logged");
}

TEST(Judgement, ASlightRiseMayBeChance) {
  Measures m = measures_of(Phase::training, Direction::rising);
  m.loss->change = {0.03, 0.001, 0.059};
  expect_counsel(m, {"Let it run", Tone::good}, "cannot be told");
  m.loss->change = {0.03, 0.016, 0.044};
  expect_counsel(m, {"Look into it", Tone::bad}, "rising");
}

TEST(Judgement, AFlatLossMayFallOnceMoreWhereTheRateDecays) {
  Measures m = measures_of(Phase::training, Direction::flat);
  m.learning_rate_share = 0.9;
  expect_counsel(m, {"Let it run", Tone::good}, "as the rate decays");
  m.learning_rate_falls = false;
  expect_counsel(m, {"It may be stopped", Tone::watch}, "constant");
}

TEST(Judgement, WhatIsWrongIsSaidOfRunsThatHaveEnded) {
  for (const Phase phase : {Phase::finished, Phase::interrupted}) {
    const bool finished = phase == Phase::finished;
    const Expected wrong{finished ? "Finished, but look into it" : "Nobody trains it", Tone::bad};
    expect_counsel(measures_of(phase, Direction::rising), wrong, "rising");
    expect_counsel(overfitting(phase), wrong, "It overfits");
    expect_counsel(skipping(phase), wrong, "skipped");
    expect_counsel(measures_of(phase, Direction::falling),
                   {finished ? "Finished" : "Nobody trains it", finished ? Tone::good : Tone::watch}, "still falling");
  }
}

TEST(Judgement, ThroughputIsComparedOnTheSameHardware) {
  RunRecord run;
  for (int64_t step = 1; step <= 200; ++step) {
    observe::StepMetrics one;
    one.step = step;
    one.images_per_second = step <= 100 ? 200.0 : 100.0;
    run.metrics.push_back(one);
  }
  run.usage = {{.ranks = 2, .cpus = 2, .from = 0, .to = 100}, {.ranks = 2, .cpus = 2, .from = 100, .to = 200}};
  EXPECT_EQ(measures_of(run, 0.0).first_images_per_second, 200.0);
  EXPECT_EQ(measures_of(run, 0.0).images_per_second, 100.0);
  run.usage[1].ranks = run.usage[1].cpus = 1;
  EXPECT_EQ(measures_of(run, 0.0).first_images_per_second, 100.0);
  run.metrics.resize(105);  // fewer steps on one rank than the last part of the run has
  run.metrics.back().images_per_second = 90.0;
  EXPECT_EQ(measures_of(run, 0.0).images_per_second, 100.0);
  EXPECT_FALSE(measures_of(run, 0.0).first_images_per_second);
  run.metrics.resize(100);  // none on one rank yet
  EXPECT_FALSE(measures_of(run, 0.0).images_per_second);
  EXPECT_FALSE(measures_of(run, 0.0).first_images_per_second);
  EXPECT_FALSE(measures_of(run, 0.0).data_wait);
}

TEST(Judgement, HowARunEnded) {
  Measures early = measures_of(Phase::finished, Direction::flat);
  early.step = 700;
  expect_counsel(early, {"Ended early", Tone::good}, "Its model is written");
  Measures own = measures_of(Phase::finished, Direction::flat);
  own.has_model = false;
  expect_counsel(own, {"Finished", Tone::good}, "All its steps are done");
  Measures failed = measures_of(Phase::interrupted, Direction::falling);
  failed.failure = "step 501: the gradients hold a value that is not finite";
  expect_counsel(failed, {"It failed", Tone::bad}, failed.failure);
  failed.checkpoint_step.reset();
  expect_counsel(failed, {"It failed", Tone::bad}, "would begin anew, since there is no whole checkpoint");
  Measures unwritten = measures_of(Phase::interrupted, Direction::flat);
  unwritten.step = 1000;
  expect_counsel(unwritten, {"Its model is not written", Tone::watch}, "writes the model");
  Measures killed = measures_of(Phase::interrupted, Direction::flat);
  killed.lock_age = 3600.0;
  expect_counsel(killed, {"Nobody trains it", Tone::watch}, "renewed 60 min");
  expect_counsel(killed, {"Nobody trains it", Tone::watch}, "the same command continues it");
  killed.checkpoint_step.reset();
  expect_counsel(killed, {"Nobody trains it", Tone::watch}, "the same command begins it anew");
}

TEST(Judgement, AStartThatWouldBeRefusedIsForetold) {
  RunRecord run;
  const auto refusal = [&run] { return measures_of(run, 0.0).refusal; };
  EXPECT_EQ(refusal(), "");
  run.saved_before = true;
  EXPECT_EQ(refusal(), "its LATEST says that there was a checkpoint, and there is none");
  run.checkpoints = {{.step = 20, .problem = "a shard is short"}, {.step = 10, .problem = "a shard is short"}};
  EXPECT_EQ(refusal(), "of its 2 checkpoints none is whole");
  run.checkpoints[1].problem = "";
  EXPECT_EQ(refusal(), "");  // the older one is gone on from
  run.checkpoints[0].newer = true;
  EXPECT_EQ(refusal(), "a later version wrote its checkpoint of step 20");

  Measures killed = measures_of(Phase::interrupted, Direction::flat);
  killed.checkpoint_step.reset();
  killed.refusal = "of its 2 checkpoints none is whole";
  expect_counsel(killed, {"Nobody trains it", Tone::bad}, "the same command is refused, since of its 2 checkpoints");
  killed.failure = "step 501: the gradients hold a value that is not finite";
  expect_counsel(killed, {"It failed", Tone::bad}, "The same command would be refused, since of its 2 checkpoints");
}

TEST(Judgement, ARunHasReachedWhatItsLastStartTells) {
  RunRecord run;
  run.metrics.resize(1);
  run.metrics.back().step = 40;
  EXPECT_EQ(measures_of(run, 0.0).step, 40);
  run.usage = {{.from = 0, .to = 47}};
  EXPECT_EQ(measures_of(run, 0.0).step, 47);
  run.usage.push_back({.from = 30, .to = 30});  // from an earlier checkpoint, with steps that were logged since
  EXPECT_EQ(measures_of(run, 0.0).step, 40);
}

TEST(Judgement, StartsThatWereOvertakenSayNothingOfOtherSets) {
  RunRecord run;
  run.usage = {{.from = 0, .to = 100, .validation = "a"},
               {.from = 100, .to = 150, .validation = "b"},  // the next one went on from before it
               {.from = 100, .to = 180, .validation = "a"},
               {.from = 180, .to = 200, .validation = ""}};
  EXPECT_EQ(last_step_of_other_validation(run), 0);
  run.usage[2].from = 120;
  EXPECT_EQ(last_step_of_other_validation(run), 120);
  run.usage[1].validation = "";  // an earlier version does not say which set it was
  EXPECT_EQ(last_step_of_other_validation(run), 0);
}

TEST(Judgement, ACheckpointIsCalledKeptOnlyIfItIsThere) {
  Measures m = overfitting(Phase::training);
  EXPECT_THAT(judge(m).counsel.text, testing::HasSubstr("step 120, whose checkpoint is not there any more"));
  m.best_kept = true;
  EXPECT_THAT(judge(m).counsel.text, testing::HasSubstr("step 120, whose checkpoint is kept"));
}

TEST(Judgement, EarlyStoppingIsNamed) {
  Measures early = measures_of(Phase::finished, Direction::unknown);
  early.step = 700;
  early.seconds_left = 3.3;
  EXPECT_THAT(judge(early).counsel.text, testing::HasSubstr("after step 700 of 1,000"));
  EXPECT_THAT(judge(early).counsel.text, testing::Not(testing::HasSubstr("yet")));
  early.patience = 3;
  EXPECT_THAT(judge(early).counsel.text, testing::HasSubstr("Early stopping ended it after step 700 of 1,000: 3 "));
  for (const Finding& finding : judge(early).findings) {
    EXPECT_THAT(finding.text, testing::Not(testing::HasSubstr("3.3 s")));
  }
}

}  // namespace
}  // namespace ddpm::report
