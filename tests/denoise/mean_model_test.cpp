// What a regression leaves of images, and regressions that are refused.
#include "denoise/mean_model.h"

#include <optional>

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "comm/solo_communicator.h"
#include "denoise/sample_inputs.h"
#include "diffusion/scheduler_json.h"

namespace ddpm::denoise {
namespace {

constexpr float kAnswer = 0.25F;

/// A regression whose answer is kAnswer everywhere.
LoadedModel constant_regression(std::optional<int64_t> classes = std::nullopt, int64_t channels = 3) {
  nn::UNet2DConfig c;
  c.num_class_embeds = classes;
  c.in_channels = channels;
  c.out_channels = 2;
  c.block_out_channels = {8, 8};
  c.down_block_types = {"DownBlock2D", "DownBlock2D"};
  c.up_block_types = {"UpBlock2D", "UpBlock2D"};
  c.layers_per_block = 1;
  c.norm_num_groups = 4;
  LoadedModel model;
  model.unet = std::make_unique<nn::UNet2D>(c);
  nn::allocate(model.unet->parameters(), at::kFloat);
  const at::NoGradGuard no_grad;
  for (const nn::Parameter* parameter : model.unet->parameters()) {
    parameter->value.fill_(parameter->name == "conv_out.bias" ? kAnswer : 0.0F);
  }
  diffusion::SchedulerConfig scheduler;
  scheduler.formulation = diffusion::Formulation::regression;
  model.scheduler = diffusion::write_scheduler(scheduler);
  model.image.height = model.image.width = 16;
  return model;
}

TEST(MeanModel, ItsAnswerIsTakenOffValidPixels) {
  const LoadedModel regression = constant_regression();
  ModelBatch batch;
  batch.x0 = at::rand({2, 2, 16, 16});
  batch.beside = at::rand({2, 1, 16, 16});
  const at::Tensor rest = without_mean(regression, batch).x0;
  EXPECT_TRUE(at::equal(rest, batch.x0 - kAnswer));
  batch.valid = at::rand({2, 1, 16, 16}) > 0.5;
  const at::Tensor valid = without_mean(regression, batch).x0;
  EXPECT_TRUE(at::equal(valid, at::where(batch.valid, rest, at::zeros({}))));
  EXPECT_FALSE(rest.requires_grad());
}

TEST(MeanModel, OthersThanRegressionsOfTheSameFieldsAreRefused) {
  LoadedModel regression = constant_regression();
  const nn::UNet2DConfig model = regression.unet->config();
  const auto refusal = [&](const ImageRecord& record, const nn::UNet2DConfig& of) {
    try {
      expect_regression(regression, record, of, /*class_dropout=*/0.0, "DIR");
    } catch (const base::OutputError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_EQ(refusal(regression.image, model), "");
  nn::UNet2DConfig wider = model;
  wider.in_channels = 4;
  EXPECT_THAT(refusal(regression.image, wider), testing::HasSubstr("DIR: the regression sees 3 channels"));
  nn::UNet2DConfig of_classes = model;
  of_classes.num_class_embeds = 4;
  EXPECT_EQ(
      refusal(regression.image, of_classes),
      "DIR: the regression sees 3 channels and 0 parameters without a class, and answers with 2 channels; the model "
      "sees 3 channels and 0 parameters with a class, and answers with 2 channels; wanted: the same of both");
  ImageRecord other = regression.image;
  other.positions = true;
  EXPECT_THAT(refusal(other, model), testing::HasSubstr("trained on other fields"));
  regression.image.positions = true;
  regression.image.whole = {16, 16};
  other.whole = {32, 32};
  EXPECT_THAT(refusal(other, model), testing::HasSubstr("is given positions: 16 × 16, wanted 32 × 32"));
  regression.image.positions = false;
  other = regression.image;
  other.height = 15;
  EXPECT_THAT(refusal(other, model), testing::StartsWith("DIR: "));
  regression.scheduler = diffusion::write_scheduler({});
  EXPECT_EQ(refusal(regression.image, model), "DIR: its formulation is ddpm; wanted: regression");
}

/// A label that no regression has a row for is the model's null class, or must not be.
TEST(MeanModel, KnowsAllClassesButTheNullClass) {
  const LoadedModel regression = constant_regression(3);
  nn::UNet2DConfig model = regression.unet->config();
  EXPECT_NO_THROW(expect_regression(regression, regression.image, model, 0.0, "DIR"));
  model.num_class_embeds = 4;
  EXPECT_NO_THROW(expect_regression(regression, regression.image, model, 0.1, "DIR"));
  EXPECT_THROW(expect_regression(regression, regression.image, model, 0.0, "DIR"), base::OutputError);
}

/// A folder need not say whether the last class of its model is the null class.
TEST(MeanModel, IsAskedForNoClassThatItLacks) {
  LoadedModel model = constant_regression(4, 2);
  model.mean = std::make_shared<const LoadedModel>(constant_regression(3, 2));
  comm::SoloCommunicator world;
  const auto refusal = [&](const SampleInputOptions& options) {
    try {
      (void)SampleInputs::of_set(model, options, std::nullopt, world, at::kCPU);
    } catch (const base::Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_EQ(refusal({.class_label = 2}), "");
  EXPECT_THAT(refusal({.class_label = 3}), testing::HasSubstr("--class-label 3: the model's regression knows classes"));
  EXPECT_THAT(refusal({.all_classes = true}), testing::HasSubstr("--class-label all: the model's regression knows"));
  model.class_dropout = 0.1;
  EXPECT_EQ(refusal({.all_classes = true}), "");
}

}  // namespace
}  // namespace ddpm::denoise
