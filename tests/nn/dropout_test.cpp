// Dropout as a pure function of seed, layer, step and position.
#include "nn/dropout.h"

#include <cmath>

#include <ATen/ops/cat.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/ones.h>
#include <gtest/gtest.h>

#include "base/random.h"
#include "nn/golden_case.h"
#include "nn/unet2d.h"

namespace ddpm::nn::test {
namespace {

const RandomContext kTraining{.seed = 11, .step = 4, .first_position = 20, .training = true};

const Partition kWhole;

TEST(Dropout, ReturnsItsInputWhenThereIsNothingToDrop) {
  const at::Tensor x = at::ones({2, 3, 4, 4});
  EXPECT_TRUE(dropout(x, 0.0, 0, {kTraining, kWhole}).is_same(x));
  EXPECT_TRUE(dropout(x, 0.5, 0, {{}, kWhole}).is_same(x));
}

TEST(Dropout, DropsElementsWhoseNumberIsBelowP) {
  constexpr double kP = 0.25;
  const at::Tensor mask = dropout_mask({2, 3, 5, 7}, {0, 5}, kP, 6, kTraining);
  for (int64_t image = 0; image < 2; ++image) {
    const base::RandomSequence numbers(11, base::dropout_stream(6), 4, 20 + static_cast<uint64_t>(image));
    const at::Tensor chw = mask[image].flatten();
    for (int64_t e = 0; e < chw.numel(); ++e) {
      const bool dropped = numbers.uniform(static_cast<uint64_t>(e)) < kP;
      EXPECT_EQ(chw[e].item<float>(), dropped ? 0.0F : static_cast<float>(1.0 / (1.0 - kP))) << image << ' ' << e;
    }
  }
}

TEST(Dropout, DropsTheSameInABandOfRows) {
  const at::Tensor whole = dropout_mask({2, 3, 6, 5}, {0, 6}, 0.5, 1, kTraining);
  EXPECT_TRUE(at::equal(dropout_mask({2, 3, 2, 5}, {4, 6}, 0.5, 1, kTraining), whole.narrow(2, 4, 2)));
}

TEST(Dropout, KeepsTheMean) {
  const double mean = dropout_mask({4, 16, 32, 32}, {0, 32}, 0.3, 0, kTraining).mean().item<double>();
  EXPECT_NEAR(mean, 1.0, 5.0 * std::sqrt(0.3 / 0.7 / (4 * 16 * 32 * 32)));
}

TEST(Dropout, DiffersBetweenLayersStepsAndSeeds) {
  const auto mask = [](uint32_t layer, const RandomContext& random) {
    return dropout_mask({1, 8, 8, 8}, {0, 8}, 0.5, layer, random);
  };
  const at::Tensor base = mask(0, kTraining);
  RandomContext other_step = kTraining;
  other_step.step = 5;
  RandomContext other_seed = kTraining;
  other_seed.seed = 12;
  EXPECT_FALSE(at::equal(base, mask(1, kTraining)));
  EXPECT_FALSE(at::equal(base, mask(0, other_step)));
  EXPECT_FALSE(at::equal(base, mask(0, other_seed)));
}

TEST(Dropout, KeepsDtypeAndMemoryOrder) {
  const at::Tensor x = at::ones({2, 3, 4, 5}, at::kBFloat16).contiguous(at::MemoryFormat::ChannelsLast);
  const at::Tensor y = dropout(x, 0.5, 0, {kTraining, kWhole});
  EXPECT_EQ(y.scalar_type(), at::kBFloat16);
  EXPECT_TRUE(y.is_contiguous(at::MemoryFormat::ChannelsLast));
  EXPECT_TRUE(at::equal(y, dropout(x.contiguous(), 0.5, 0, {kTraining, kWhole})));
}

class DropoutInUNet2D : public testing::Test {
 protected:
  DropoutInUNet2D() : golden_(read_golden(DDPM_TEST_DATA "/golden/class_table.safetensors")), unet_(config()) {
    bind_weights(unet_.parameters(), golden_, at::kFloat);
  }

  [[nodiscard]] UNet2DConfig config() const {
    UNet2DConfig c = config_from_json(golden_.config);
    c.dropout = 0.2;
    return c;
  }

  [[nodiscard]] at::Tensor predict(int64_t first, int64_t count, RandomContext random) const {
    const at::NoGradGuard no_grad;
    random.first_position += static_cast<uint64_t>(first);
    return unet_.forward(golden_.x.narrow(0, first, count), golden_.timesteps.narrow(0, first, count),
                         golden_.class_labels.narrow(0, first, count), random);
  }

  GoldenCase golden_;
  UNet2D unet_;
};

TEST_F(DropoutInUNet2D, DoesNotDependOnHowTheBatchIsCut) {
  const at::Tensor whole = predict(0, 3, kTraining);
  const at::Tensor parts = at::cat({predict(0, 1, kTraining), predict(1, 2, kTraining)});
  EXPECT_LT(relative_distance(parts, whole), 1e-6);
}

TEST_F(DropoutInUNet2D, ActsWhileTrainingOnly) {
  EXPECT_LT(relative_distance(predict(0, 3, {}), golden_.output), 1e-5);
  EXPECT_GT(relative_distance(predict(0, 3, kTraining), golden_.output), 1e-2);
}

}  // namespace
}  // namespace ddpm::nn::test
