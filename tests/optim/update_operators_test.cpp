// What is decided between the passes of an update, against the host's own functions; and the operators on CPU tensors.
#include "optim/update_operators.h"

#include <limits>
#include <random>

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include "golden.h"
#include "optim/clip.h"
#include "optim/loss_scaler.h"
#include "optim/update_schedule.h"

namespace ddpm::test {
namespace {

const optim::OptimizerConfig kOptimizer{.learning_rate = 2e-3, .weight_decay = 0.1, .max_grad_norm = 0.5};
const optim::LrScheduleConfig kLrSchedule{.warmup_steps = 20};
const optim::EmaConfig kEma{.inv_gamma = 2.0, .max_decay = {0.99, 0.9999}};
constexpr int64_t kTotal = 900;

at::Tensor zeros_of(int64_t count, at::ScalarType type) { return at::zeros({count}, at::TensorOptions().dtype(type)); }

/// The device's side of a run, on the CPU.
struct Device {
  explicit Device(const optim::LossScaler& scaler, int64_t applied = 0)
      : record(zeros_of(optim::kRecordSize, at::kDouble)),
        scalars(zeros_of(optim::kScalarsSize + 2, at::kFloat)),
        schedule(kOptimizer, kLrSchedule, kEma, kTotal, at::kCPU),
        rules{.whole = true, .max_norm = kOptimizer.max_grad_norm, .loss_scale = scaler.rule()} {
    numbers().scale = scaler.scale();
    numbers().applied_updates = static_cast<double>(applied);
    schedule.start(applied);
  }

  optim::UpdateRecord& numbers() const {
    return *reinterpret_cast<optim::UpdateRecord*>(record.mutable_data_ptr<double>());
  }
  optim::UpdateScalars scalars_now() const {
    return *reinterpret_cast<const optim::UpdateScalars*>(scalars.const_data_ptr<float>());
  }
  float one_minus_decay(std::size_t average) const {
    return scalars.const_data_ptr<float>()[optim::kScalarsSize + static_cast<int64_t>(average)];
  }
  void step(double squares, bool finite) const {
    numbers().own_squares = finite ? squares : std::numeric_limits<double>::quiet_NaN();
    numbers().not_finite = finite ? 0.0 : 1.0;
    optim::begin_update_(record, scalars, schedule.rows(), rules);
  }

  at::Tensor record, scalars;
  optim::UpdateSchedule schedule;
  optim::UpdateRules rules;
};

void expect_update(const Device& device, int64_t applied, double norm, double scale) {
  const optim::AdamWStep step{
      .learning_rate = optim::learning_rate(kLrSchedule, kOptimizer.learning_rate, applied, kTotal),
      .applied_step = applied + 1,
      .gradient_scale = optim::clip_coefficient(norm, kOptimizer.max_grad_norm) / scale};
  const optim::AdamWScalars wanted = optim::adamw_scalars(optim::adamw_config(kOptimizer), step);
  const optim::AdamWScalars seen = device.scalars_now().adamw;
  EXPECT_EQ(seen.gradient_scale, wanted.gradient_scale);
  EXPECT_EQ(seen.keep, wanted.keep);
  EXPECT_EQ(seen.one_minus_beta1, wanted.one_minus_beta1);
  EXPECT_EQ(seen.beta2, wanted.beta2);
  EXPECT_EQ(seen.one_minus_beta2, wanted.one_minus_beta2);
  EXPECT_EQ(seen.step_size, wanted.step_size);
  EXPECT_EQ(seen.root_correction, wanted.root_correction);
  EXPECT_EQ(seen.eps, wanted.eps);
  for (const std::size_t k : {0U, 1U}) {
    EXPECT_EQ(device.one_minus_decay(k), static_cast<float>(1.0 - optim::ema_decay(kEma, k, applied + 1)));
  }
}

TEST(DeviceUpdate, DecidesAsTheHostDoesOverARun) {
  optim::LossScaler scaler(
      {.mixed_precision = optim::MixedPrecision::fp16, .initial_loss_scale = 1024.0, .loss_scale_window = 5});
  Device device(scaler);
  std::mt19937 generator(1);
  int64_t applied = 0;
  for (int64_t step = 0; step < kTotal + 100; ++step) {  // beyond the planned end too
    SCOPED_TRACE(testing::Message() << "step " << step);
    const bool finite = generator() % 8 != 0;
    const double squares = std::exp2(static_cast<double>(generator() % 2400) / 100.0);
    const double scale = scaler.scale();
    const double norm = std::sqrt(squares) / scale;
    device.schedule.advance(std::max<int64_t>(0, applied - 100));  // the host is late
    device.step(squares, finite);
    ASSERT_EQ(device.scalars_now().applies, finite ? 1.0F : 0.0F);
    ASSERT_EQ(device.numbers().norm, finite ? norm : std::numeric_limits<double>::infinity());
    if (finite) expect_update(device, applied++, norm, scale);
    scaler.update(!finite);
    ASSERT_EQ(device.numbers().scale, scaler.scale());
    ASSERT_EQ(device.numbers().growth_tracker, static_cast<double>(scaler.state().growth_tracker));
    ASSERT_EQ(device.numbers().consecutive_skips, static_cast<double>(scaler.state().consecutive_skips));
    ASSERT_EQ(device.numbers().applied_updates, static_cast<double>(applied));
    ASSERT_EQ(device.numbers().exhausted, 0.0);
  }
  EXPECT_GT(applied, 512);  // the rows were filled anew more than once
}

TEST(DeviceUpdate, AppliesNothingOnceTheScaleIsExhausted) {
  const optim::LossScaler scaler(
      {.mixed_precision = optim::MixedPrecision::fp16, .initial_loss_scale = 4.0, .min_loss_scale = 2.0});
  const Device device(scaler);
  device.step(1.0, false);
  EXPECT_EQ(device.numbers().exhausted, 0.0);
  EXPECT_EQ(device.numbers().scale, 2.0);
  device.step(1.0, false);
  EXPECT_EQ(device.numbers().exhausted, 1.0);
  device.step(1.0, true);  // launched before the host could know
  EXPECT_EQ(device.scalars_now().applies, 0.0F);
  EXPECT_EQ(device.numbers().applied_updates, 0.0);
  EXPECT_EQ(device.numbers().norm, std::numeric_limits<double>::infinity());
}

TEST(DeviceUpdate, TakesTheSumOverRanksWhereEachHasAShare) {
  const optim::LossScaler scaler(optim::PrecisionConfig{});
  Device device(scaler);
  device.rules.whole = false;
  device.numbers().squares = 16.0;
  device.step(9.0, true);
  EXPECT_EQ(device.numbers().norm, 4.0);
}

TEST(DeviceUpdate, OperatorsUpdateEveryPieceAndAverage) {
  const std::vector<int64_t> sizes = {100, 7};
  const auto make = [&](uint32_t seed, at::ScalarType type = at::kFloat) {
    std::vector<at::Tensor> pieces;
    for (const int64_t size : sizes) {
      const auto values = random_floats(static_cast<std::size_t>(size), seed++);
      pieces.push_back(at::empty({size}, at::TensorOptions().dtype(at::kFloat)));
      std::ranges::copy(values, pieces.back().mutable_data_ptr<float>());
      pieces.back() = pieces.back().to(type);
    }
    return pieces;
  };
  const auto parameters = make(1), gradients = make(11), m = make(21), v = make(31), working = make(41, at::kBFloat16);
  for (const at::Tensor& piece : v) piece.mul_(piece);
  auto averages = make(51);
  for (const at::Tensor& piece : make(61)) averages.push_back(piece);
  const auto wanted = make(1), wanted_m = make(21), wanted_v = make(31), wanted_first = make(51),
             wanted_second = make(61);
  for (const at::Tensor& piece : wanted_v) piece.mul_(piece);

  const at::Tensor sums = zeros_of(3, at::kDouble);
  optim::sum_of_squares_(gradients, 2, sums);
  const auto span_of = [](const at::Tensor& flat) {
    return std::span<float>(flat.mutable_data_ptr<float>(), static_cast<std::size_t>(flat.numel()));
  };
  EXPECT_EQ(sums[0].item<double>(),
            optim::sum_of_squares(span_of(gradients[0])) + optim::sum_of_squares(span_of(gradients[1])));
  EXPECT_EQ(sums[1].item<double>(), sums[0].item<double>() / 2.0);

  const optim::LossScaler scaler(optim::PrecisionConfig{});
  const Device device(scaler, 30);
  device.step(4.0, true);
  optim::flat_update_(device.scalars, {parameters, gradients, m, v, averages, working});
  const optim::AdamWStep step{.learning_rate = optim::learning_rate(kLrSchedule, kOptimizer.learning_rate, 30, kTotal),
                              .applied_step = 31,
                              .gradient_scale = optim::clip_coefficient(2.0, kOptimizer.max_grad_norm)};
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    optim::adamw_update(optim::adamw_config(kOptimizer), step, span_of(wanted[i]), span_of(gradients[i]),
                        span_of(wanted_m[i]), span_of(wanted_v[i]));
    optim::ema_update(optim::ema_decay(kEma, 0, 31), span_of(wanted_first[i]), span_of(wanted[i]));
    optim::ema_update(optim::ema_decay(kEma, 1, 31), span_of(wanted_second[i]), span_of(wanted[i]));
    EXPECT_TRUE(parameters[i].equal(wanted[i]));
    EXPECT_TRUE(m[i].equal(wanted_m[i]));
    EXPECT_TRUE(v[i].equal(wanted_v[i]));
    EXPECT_TRUE(averages[i].equal(wanted_first[i]));
    EXPECT_TRUE(averages[sizes.size() + i].equal(wanted_second[i]));
    EXPECT_TRUE(working[i].equal(wanted[i].to(at::kBFloat16)));
  }
}

}  // namespace
}  // namespace ddpm::test
