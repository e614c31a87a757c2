// Every golden model cut into stages, one on each rank: what diffusers predicts, and its gradients.
#include "parallel/pipeline_stage.h"

#include <algorithm>
#include <deque>
#include <limits>

#include <ATen/Functions.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "layout/pipeline.h"
#include "nn/golden_gradients.h"
#include "parallel/activation_checkpointing.h"
#include "parallel/over_ranks.h"
#include "support/mpi_test.h"

namespace ddpm::parallel {
namespace {

using nn::test::GoldenCase;

class Staged : public testing::TestWithParam<std::filesystem::path> {
 protected:
  Staged() : golden_(nn::test::read_golden(GetParam())), unet_(nn::test::config_from_json(golden_.config)) {}

  /// Binds the stage's weights. Those of others are no numbers.
  void bind() {
    nn::test::bind_weights(unet_.parameters(), golden_, at::kFloat);
    const at::NoGradGuard no_grad;
    for (nn::Parameter* p : unet_.parameters()) {
      if (!is_ours(*p)) p->value.fill_(std::numeric_limits<double>::quiet_NaN());
    }
  }
  [[nodiscard]] bool is_ours(const nn::Parameter& parameter) const {
    const layout::Range units = stages_of(unet_, world_.size()).at(static_cast<std::size_t>(world_.rank()));
    return parameter.unit >= units.begin && parameter.unit < units.end;
  }
  [[nodiscard]] at::Tensor predict(nn::UnitExecutor& executor) const {
    return unet_.forward(golden_.x, golden_.timesteps, golden_.class_labels, {}, nn::whole_image(), executor);
  }

  /// Every rank gets the gradients of all stages.
  void join_gradients() {
    for (const nn::Parameter* p : unet_.parameters()) {
      EXPECT_TRUE(is_ours(*p) || !p->value.grad().defined()) << p->name;
    }
    test::sum_gradients(unet_, world_);
  }

  GoldenCase golden_;
  nn::UNet2D unet_;
  comm::Communicator& world_ = ddpm::test::world();
};

TEST_P(Staged, AllStagesGetWhatDiffusersPredicts) {
  const at::NoGradGuard no_grad;
  bind();
  nn::UnitExecutor directly;
  PipelineStage stage(unet_.config(), at::kFloat, at::kCPU, nn::whole_image(), stages_of(unet_, world_.size()), world_,
                      directly);
  for (int again = 0; again < 2; ++again) {
    EXPECT_LT(nn::test::relative_distance(predict(stage), golden_.output), golden_.exact ? 2e-5 : 1e-5);
  }
  stage.finish();
}

/// The gradients of a step; `expected`: what comes is received ahead.
TEST_P(Staged, GradientsAreThoseOfDiffusers) {
  constexpr int64_t kMicroBatches = 3;
  for (const auto kept : {ActivationCheckpointing::none, ActivationCheckpointing::blocks}) {
    ActivationCheckpointer inner(kept);
    PipelineStage stage(unet_.config(), at::kFloat, at::kCPU, nn::whole_image(), stages_of(unet_, world_.size()),
                        world_, inner);
    for (const bool expected : {false, true, true}) {
      SCOPED_TRACE(testing::Message() << "activation checkpointing " << static_cast<int>(kept) << ", " << expected);
      bind();
      if (expected) stage.expect(kMicroBatches);
      std::deque<at::Tensor> objectives;
      for (const auto& pass : layout::one_forward_one_backward(world_.rank(), world_.size(), kMicroBatches)) {
        if (pass.forward) {
          const at::Tensor y = predict(stage);
          EXPECT_EQ(y.defined(), stage.is_last());
          objectives.push_back(y.defined() ? (y - golden_.target).square().mean() / kMicroBatches : at::Tensor());
        } else {
          stage.backward(objectives.front());
          objectives.pop_front();
        }
      }
      stage.finish();
      join_gradients();
      nn::test::expect_gradients(unet_, golden_);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Files, Staged, testing::ValuesIn(nn::test::golden_files()),
                         [](const auto& file) { return file.param.stem().string(); });

TEST(StageFlow, SkipsGoStraightToTheStageThatTakesThem) {
  nn::UNet2DConfig config;
  config.sample_size = {16, 16};
  config.down_block_types = {"DownBlock2D", "DownBlock2D"};
  config.up_block_types = {"UpBlock2D", "UpBlock2D"};
  config.block_out_channels = {8, 8};
  config.layers_per_block = 1;
  config.norm_num_groups = 4;
  config.add_attention = false;
  nn::UNet2D unet(config);
  bind_on_meta(unet, at::kFloat);
  // conv_in, down 0 (resnet, downsampler), down 1 | middle | up 0 (2 resnets, upsampler) | up 1 (2 resnets), conv_out
  const std::vector<layout::Range> stages = {{0, 4}, {4, 6}, {6, 9}, {9, 12}};
  ASSERT_EQ(std::ssize(unet.units()), stages.back().end);
  const std::vector<StageFlow> flows = stage_flows(unet, stages, {.images = 2, .height = 16, .width = 16});
  const auto others = [](const std::vector<StageValue>& values) {
    std::vector<int64_t> all(values.size());
    std::ranges::transform(values, all.begin(), &StageValue::stage);
    return all;
  };
  EXPECT_EQ(others(flows[0].in), (std::vector<int64_t>{}));
  // The activation and the embedding go from stage to stage. The last skip is the activation, which stage 1 has got.
  EXPECT_EQ(others(flows[0].out), (std::vector<int64_t>{1, 1, 2, 3, 3}));
  EXPECT_EQ(others(flows[1].out), (std::vector<int64_t>{2, 2, 2}));
  EXPECT_EQ(others(flows[2].in), (std::vector<int64_t>{1, 1, 0, 1}));
  EXPECT_EQ(flows[1].in[0].places, (std::vector<std::size_t>{0, 7}));
  EXPECT_EQ(flows[1].out[2].places, (std::vector<std::size_t>{7}));
  EXPECT_EQ(others(flows[3].in), (std::vector<int64_t>{2, 2, 0, 0}));
  EXPECT_EQ(flows[3].in[2].sizes, (std::vector<int64_t>{2, 8, 16, 16}));
  EXPECT_EQ(flows[3].skips, 2U);
}

nn::UNet2D seven_units() {
  nn::UNet2DConfig config;
  config.sample_size = {16, 16};
  config.down_block_types = {"DownBlock2D"};
  config.up_block_types = {"UpBlock2D"};
  config.block_out_channels = {8};
  config.layers_per_block = 1;
  config.norm_num_groups = 4;
  config.add_attention = false;
  return nn::UNet2D(config);
}

std::string refusal_of(int64_t stages, const std::vector<int64_t>& stage_units) {
  try {
    static_cast<void>(stages_of(seven_units(), stages, stage_units));
    return "accepted";
  } catch (const base::ConfigError& error) {
    return error.what();
  }
}

TEST(Stages, MoreThanUnitsAreRefusedByNumber) {
  EXPECT_EQ(refusal_of(9, {}), "parallel.pipeline_size = 9: the model has 7 units that make stages; wanted: at most 7");
}

TEST(Stages, AreThoseThatWereSet) {
  EXPECT_EQ(stages_of(seven_units(), 3, {1, 2, 4}), (std::vector<layout::Range>{{0, 1}, {1, 3}, {3, 7}}));
  EXPECT_EQ(refusal_of(3, {1, 2, 3}),
            "parallel.stage_units = [1, 2, 3]: 3 numbers, 6 units together; wanted: 3, one for each stage of "
            "parallel.pipeline_size, 7 together");
  EXPECT_EQ(refusal_of(2, {1, 2, 4}),
            "parallel.stage_units = [1, 2, 4]: 3 numbers, 7 units together; wanted: 2, one for each stage of "
            "parallel.pipeline_size, 7 together");
}

}  // namespace
}  // namespace ddpm::parallel
