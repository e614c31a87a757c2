// The update that decides on the device, here on host tensors by the operators' CPU implementations, against the one
// that decides on the host: whole trainings with the same bits, also where steps are skipped and where runs end.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include <ATen/ops/equal.h>
#include <fmt/core.h>
#include <gmock/gmock.h>

#include "base/error.h"
#include "engine/sharded_training.h"
#include "support/mpi_test.h"

namespace ddpm::engine::test {
namespace {

constexpr int kSteps = 5;
constexpr int kFewSteps = 3;  // as many as run ahead of each other, and one more

comm::Communicator& world() { return ddpm::test::world(); }

/// A small model, of which each rank has three micro-batches in a step: both sides of every comparison do the same.
TrainingCase small_case() {
  TrainingCase chosen;
  chosen.model.block_out_channels = {8, 8};
  chosen.micro_size = kGlobalSize / (3 * world().size());
  return chosen;
}

TrainingCase on_device(TrainingCase chosen) {
  chosen.change_rules = [before = chosen.change_rules](StepRules& rules) {
    if (before) before(rules);
    rules.device_update = true;
  };
  return chosen;
}

/// Compares numbers; NaN equals NaN.
void expect_same(const std::vector<double>& seen, const std::vector<double>& wanted) {
  ASSERT_EQ(seen.size(), wanted.size());
  for (std::size_t i = 0; i < seen.size(); ++i) {
    EXPECT_TRUE(seen[i] == wanted[i] || (std::isnan(seen[i]) && std::isnan(wanted[i])))
        << "step " << i << ": " << seen[i] << ", not " << wanted[i];
  }
}

/// Returns what the device's training ended with.
TrainingResult expect_same_training(const TrainingCase& chosen, int steps) {
  const TrainingResult host = train(chosen, world(), steps);
  const TrainingResult device = train(on_device(chosen), world(), steps);
  EXPECT_GE(host.progress.back().applied_updates, 2) << "the weights are nearly those of the start";
  EXPECT_EQ(host.most_under_way, 1);
  EXPECT_EQ(device.most_under_way, chosen.ahead ? 2 : 1);
  EXPECT_TRUE(at::equal(device.weights, host.weights));
  EXPECT_TRUE(at::equal(device.average, host.average));
  expect_same(device.losses, host.losses);
  expect_same(device.gradient_norms, host.gradient_norms);
  expect_same(device.learning_rates, host.learning_rates);
  for (std::size_t step = 0; step < host.progress.size(); ++step) {
    EXPECT_EQ(device.progress[step].step, host.progress[step].step);
    EXPECT_EQ(device.progress[step].applied_updates, host.progress[step].applied_updates);
    EXPECT_EQ(device.progress[step].images_seen, host.progress[step].images_seen);
    EXPECT_EQ(device.progress[step].scaler, host.progress[step].scaler);
  }
  return device;
}

/// The error that ends a training.
std::string error_of(const TrainingCase& chosen, int steps) {
  try {
    train(chosen, world(), steps);
  } catch (const base::Error& error) {
    EXPECT_EQ(error.code(), base::ExitCode::numerics);
    return error.what();
  }
  return "no error";
}

int64_t skipped(const TrainingResult& result) {
  return std::ranges::count_if(result.gradient_norms, [](double norm) { return std::isinf(norm); });
}

/// fp16 that overflows at first, and whose scale grows again soon.
TrainingCase overflowing() {
  TrainingCase chosen = small_case();
  chosen.mixed_precision = "fp16";
  chosen.change_rules = [](StepRules& rules) {
    rules.precision.initial_loss_scale = 0x1p26;
    rules.precision.loss_scale_window = 2;
  };
  return chosen;
}

TEST(DeviceUpdate, EveryStageAndPrecisionHasTheBitsOfTheHostsUpdate) {
  for (const char* precision : {"no", "bf16", "fp16"}) {
    for (int64_t stage = 0; stage <= 3; ++stage) {
      TrainingCase chosen = small_case();
      chosen.mixed_precision = precision;
      chosen.parallel.zero_stage = stage;
      chosen.parallel.bucket_mib = 0.01;  // many pieces
      chosen.parallel.overlap = stage % 2 == 0;
      chosen.ahead = stage >= 2;
      SCOPED_TRACE(chosen.text());
      expect_same_training(chosen, kFewSteps);
    }
  }
}

TEST(DeviceUpdate, TwoGroupsHaveTheBitsOfTheHostsUpdate) {
  for (int64_t stage = 1; stage <= 3; ++stage) {
    TrainingCase chosen = small_case();
    chosen.parallel.zero_stage = stage;
    chosen.parallel.dp_shard_size = std::max(1, world().size() / 2);
    SCOPED_TRACE(chosen.text());
    expect_same_training(chosen, kSteps);
  }
}

TEST(DeviceUpdate, IslandsHaveTheBitsOfTheHostsUpdate) {
  for (int64_t stage = 0; stage <= 3; ++stage) {
    TrainingCase chosen = stage == 0 ? overflowing() : small_case();  // steps are skipped on all islands or on none
    chosen.parallel.sync_every = 2;
    chosen.parallel.zero_stage = stage;
    if (stage > 0) chosen.parallel.dp_shard_size = std::max(1, world().size() / 2);
    chosen.ahead = stage != 1;
    SCOPED_TRACE(chosen.text());
    expect_same_training(chosen, stage == 0 ? 12 : kSteps);
  }
}

TEST(DeviceUpdate, ReproducibleSumsHaveTheBitsOfTheHostsTree) {
  for (const int64_t stage : {0, 1}) {
    TrainingCase chosen = small_case();
    chosen.reproducible = true;
    chosen.micro_size = 3;
    chosen.parallel.zero_stage = stage;
    SCOPED_TRACE(chosen.text());
    expect_same_training(chosen, kSteps);
  }
}

TEST(DeviceUpdate, ScheduleWithWarmupAndNoClipping) {
  TrainingCase chosen = small_case();
  chosen.change_rules = [](StepRules& rules) {
    rules.lr_schedule = {.warmup_steps = 2};
    rules.total_steps = kSteps;
    rules.optimizer.max_grad_norm = 0.0;
  };
  for (const bool ahead : {false, true}) {
    chosen.ahead = ahead;
    const TrainingResult result = expect_same_training(chosen, kSteps + 1);
    // Rates follow the number of updates done before, as diffusers' schedulers do, while warming up and on the cosine.
    EXPECT_EQ(result.learning_rates[0], 0.0);
    EXPECT_EQ(result.learning_rates[1], 0.5e-3);
    EXPECT_EQ(result.learning_rates[2], 1e-3);
  }
}

TEST(DeviceUpdate, OverflowSkipsTheStepAndTheScaleRecovers) {
  for (const int64_t stage : {0, 3}) {
    TrainingCase chosen = overflowing();
    chosen.parallel.zero_stage = stage;
    chosen.ahead = stage == 0;
    SCOPED_TRACE(chosen.text());
    const TrainingResult result = expect_same_training(chosen, 17);
    EXPECT_GE(skipped(result), 2);
    EXPECT_GE(result.progress.back().applied_updates, 5);
  }
}

TEST(DeviceUpdate, GoesOnFromCountersThatWereSetFromOutside) {
  TrainingCase chosen = overflowing();
  const TrainingResult unbroken = expect_same_training(chosen, 12);
  chosen.reload = true;
  const TrainingResult reloaded = train(on_device(chosen), world(), 12);
  EXPECT_TRUE(at::equal(reloaded.weights, unbroken.weights));
  EXPECT_EQ(reloaded.gradient_norms, unbroken.gradient_norms);
}

TEST(DeviceUpdate, EndsWithTheHostsWordsWhenTheScaleIsExhausted) {
  TrainingCase chosen = overflowing();
  chosen.change_rules = [before = chosen.change_rules](StepRules& rules) {
    before(rules);
    rules.precision.min_loss_scale = 0x1p25;
  };
  const std::string message = error_of(on_device(chosen), 4);
  EXPECT_EQ(message, error_of(chosen, 4));
  chosen.ahead = true;
  EXPECT_EQ(message, error_of(on_device(chosen), 4));
  EXPECT_THAT(message, testing::HasSubstr("step 2: gradients overflow at loss scale"));
}

TEST(DeviceUpdate, SkipsValuesThatAreNotFiniteAsOftenAsAllowed) {
  TrainingCase chosen = small_case();
  chosen.poisoned = [](int64_t step) { return step == 2 && world().rank() == world().size() - 1; };
  chosen.change_rules = [](StepRules& rules) { rules.skip_nonfinite = 1; };
  for (const bool ahead : {true, false}) {
    chosen.ahead = ahead;
    const TrainingResult result = expect_same_training(chosen, kSteps);
    EXPECT_EQ(skipped(result), 1);
    EXPECT_EQ(result.progress.back().applied_updates, kSteps - 1);
  }

  chosen.change_rules = {};
  const std::string message = error_of(on_device(chosen), kSteps);
  EXPECT_EQ(message, error_of(chosen, kSteps));
  chosen.ahead = true;
  EXPECT_EQ(message, error_of(on_device(chosen), kSteps));
  EXPECT_THAT(message, testing::HasSubstr(fmt::format("the loss is not finite on rank {}", world().size() - 1)));
}

}  // namespace
}  // namespace ddpm::engine::test
