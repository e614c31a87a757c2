#include "plan/model_sizes.h"

#include <algorithm>
#include <vector>

#include <gtest/gtest.h>

#include "nn/unet2d.h"
#include "parallel/unit_flow.h"
#include "plan/memory.h"

namespace ddpm::plan {
namespace {

/// Stages by operations are others where the parts of channels are counted in place of whole blocks.
nn::UNet2DConfig small_unet() {
  nn::UNet2DConfig config;
  config.sample_size = {16, 16};
  config.in_channels = 1;
  config.out_channels = 1;
  config.layers_per_block = 1;
  config.block_out_channels = {8, 16};
  config.down_block_types = {"DownBlock2D", "AttnDownBlock2D"};
  config.up_block_types = {"AttnUpBlock2D", "UpBlock2D"};
  config.norm_num_groups = 4;
  config.attention_head_dim = 4;
  return config;
}

TEST(ModelSizes, StagesAreThoseOfTrainingWhereChannelsAreCutToo) {
  const nn::UNet2DConfig config = small_unet();
  nn::UNet2D trained(config);
  std::vector<int64_t> stage_units;
  for (const layout::Range& units : parallel::cut_model(trained, 2, {}, /*part=*/1, /*parts=*/2)) {
    stage_units.push_back(units.size());
  }
  const data::ImageFormat image{.height = 16, .width = 16, .channels = 1, .dtype = base::DType::f32};
  const layout::Tiling whole({16, 16}, {1, 1}, 2);
  const auto sizes_of = [&](const Cuts& cuts) {
    return model_sizes(config, image, 1, /*mixed_precision=*/false, parallel::ActivationCheckpointing::none, cuts);
  };
  const ModelSizes planned = sizes_of({.tiling = whole, .channel_parts = 2, .stages = 2});
  const ModelSizes as_trained =
      sizes_of({.tiling = whole, .channel_parts = 2, .stages = 2, .stage_units = stage_units});
  EXPECT_EQ(planned.unit_elements, as_trained.unit_elements);
  EXPECT_EQ(planned.stage_bytes, as_trained.stage_bytes);
  EXPECT_EQ(planned.forward_flops, as_trained.forward_flops);
  EXPECT_NE(planned.unit_elements,
            sizes_of({.tiling = whole, .channel_parts = 2, .stages = 2, .stage_units = {8, 4}}).unit_elements)
      << "the cut that parts would have by themselves";
}

/// Elements of the trained parameters of `units`, as the rank that holds part 0 of their channels has them.
int64_t trained_elements(const nn::UNet2D& unet, layout::Range units) {
  int64_t elements = 0;
  for (int64_t u = units.begin; u < units.end; ++u) {
    for (const nn::Parameter* parameter : unet.units()[static_cast<std::size_t>(u)]->parameters()) {
      if (parameter->role == base::ParameterRole::trained) elements += parameter->numel();
    }
  }
  return elements;
}

TEST(ModelSizes, ASnapshotIsPlannedForTheLargestStageAndForWhatIsNotCut) {
  const nn::UNet2DConfig config = small_unet();
  const data::ImageFormat image{.height = 16, .width = 16, .channels = 1, .dtype = base::DType::f32};
  for (const int64_t parts : {1, 2}) {
    nn::UNet2D unet(config);
    int64_t largest = 0;
    for (const layout::Range& units : parallel::cut_model(unet, 2, {}, /*part=*/0, parts)) {
      largest = std::max(largest, trained_elements(unet, units));
    }
    const layout::Tiling whole({16, 16}, {1, 1}, 2);
    const ModelSizes planned =
        model_sizes(config, image, 1, /*mixed_precision=*/false, parallel::ActivationCheckpointing::none,
                    {.tiling = whole, .channel_parts = parts, .stages = 2});
    EXPECT_EQ(planned.held_parameters, largest);
    EXPECT_GT(2 * parts * largest, planned.parameters) << "the mean over the ranks would be less";
    const Arrangement a{.ranks_per_node = 4 * parts,
                        .parallelism = {.global_size = 2, .tensor_size = parts, .pipeline_size = 2},
                        .averages = 1};
    EXPECT_EQ(memory_of(planned, a, 0).snapshot, 4 * (4 * largest / 2));
  }
}

TEST(ModelSizes, AStageKeepsTheActivationsOfTheMicroBatchesOnTheirWay) {
  const nn::UNet2DConfig config = small_unet();
  const data::ImageFormat image{.height = 16, .width = 16, .channels = 1, .dtype = base::DType::f32};
  const auto sizes_of = [&](int64_t stages) {
    return model_sizes(config, image, 1, /*mixed_precision=*/false, parallel::ActivationCheckpointing::none,
                       {.stages = stages});
  };
  EXPECT_EQ(sizes_of(1).activations.size(), 1U);
  const ModelSizes planned = sizes_of(3);
  ASSERT_EQ(planned.activations.size(), 3U);
  EXPECT_LT(planned.activations[0].kept, planned.activations[1].kept);
  EXPECT_LE(planned.activations[1].kept, planned.activations[2].kept);
  EXPECT_LT(planned.activations[0].kept, sizes_of(1).activations[0].kept) << "of a part of the units";
}

}  // namespace
}  // namespace ddpm::plan
