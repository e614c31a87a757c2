// Every golden model whose blocks are cut by channels, a part on each rank: what diffusers predicts, and its gradients.
#include <map>
#include <set>
#include <string>

#include <ATen/Functions.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "comm/collectives.h"
#include "nn/golden_gradients.h"
#include "parallel/over_ranks.h"
#include "parallel/tile_partition.h"
#include "support/mpi_test.h"

namespace ddpm::parallel {
namespace {

using nn::test::GoldenCase;

/// The golden models whose heads of attention and groups of norms can be cut into so many parts.
const std::map<int, std::set<std::string>> kCanBeCut = {
    {2,
     {"class_identity", "class_table", "class_timestep", "fourier", "growing_frequencies", "padding_0",
      "residual_resampling", "resnet_resampling", "scale_shift", "scale_shift_attn_groups",
      "skip_blocks_with_attention", "skip_blocks_with_attention_up"}},
    {3, {"no_mid_block", "one_level"}},
    {4, {"resnet_resampling", "scale_shift_attn_groups"}}};

/// `parts` of a golden model's channels, and as many tiles of its images as the other ranks make.
class CutByChannels : public testing::TestWithParam<std::filesystem::path> {
 protected:
  CutByChannels() : golden_(nn::test::read_golden(GetParam())) {}

  /// Calls `check` with this rank's part of the model, and what it holds of it, for each number of parts. What cannot
  /// be cut so must be refused.
  template <typename Check>
  void for_each_cut(const Check& check) {
    for (int parts = 2; parts <= world_.size(); ++parts) {
      if (world_.size() % parts == 0) with_parts(parts, check);
    }
  }

  GoldenCase golden_;
  comm::Communicator& world_ = ddpm::test::world();

 private:
  template <typename Check>
  void with_parts(int parts, const Check& check) {
    nn::UNet2D unet(nn::test::config_from_json(golden_.config));
    const auto channels = world_.split(world_.rank() / parts, world_.rank());
    const auto tiles = world_.split(world_.rank() % parts, world_.rank());
    const std::vector<int64_t> sides = {golden_.x.size(2), golden_.x.size(3)};
    const int64_t unit = nn::size_multiple(unet.config());
    if (!layout::Tiling::refusal(sides, {tiles->size(), 1}, unit).empty()) return;
    SCOPED_TRACE(testing::Message() << parts << " parts x " << tiles->size() << " tiles");
    if (!kCanBeCut.at(parts).contains(GetParam().stem().string())) {
      EXPECT_THROW(unet.hold_channels(channels->rank(), parts), base::ConfigError);
      return;
    }
    unet.hold_channels(channels->rank(), parts);
    nn::test::bind_weights(unet.parameters(), golden_, at::kFloat);
    const TilePartition partition(layout::Tiling(sides, {tiles->size(), 1}, unit), unet.image_shape(),
                                  tiles->size() > 1 ? tiles.get() : nullptr, channels.get());
    check(unet, partition, *tiles, parts);
  }
};

TEST_P(CutByChannels, PredictsWhatDiffusersPredicts) {
  const at::NoGradGuard no_grad;
  for_each_cut([&](const nn::UNet2D& unet, const nn::Partition& part, comm::Communicator& /*tiles*/, int parts) {
    const at::Tensor y = unet.forward(part.cut(golden_.x), golden_.timesteps, golden_.class_labels, {}, part);
    EXPECT_LT(test::relative_error(y, part.cut(golden_.output), world_), golden_.exact ? 2e-5 : 1e-5);
    const std::vector<double> sums = comm::all_gather(world_, std::vector<double>{y.sum().item<double>()});
    for (int rank = 1; rank < parts; ++rank) EXPECT_EQ(sums[static_cast<std::size_t>(rank)], sums[0]);
  });
}

TEST_P(CutByChannels, GradientsArePartsOfThoseOfDiffusers) {
  for_each_cut([&](const nn::UNet2D& unet, const nn::Partition& part, comm::Communicator& tiles, int /*parts*/) {
    const at::Tensor y = unet.forward(part.cut(golden_.x), golden_.timesteps, golden_.class_labels, {}, part);
    const at::Tensor errors = (y - part.cut(golden_.target)).square();
    (errors.sum() / static_cast<double>(golden_.target.numel())).backward();
    test::sum_gradients(unet, tiles);
    nn::test::expect_gradients(unet, golden_);
  });
}

INSTANTIATE_TEST_SUITE_P(Files, CutByChannels, testing::ValuesIn(nn::test::golden_files()),
                         [](const auto& file) { return file.param.stem().string(); });

TEST(HoldChannels, GoldenModelsCanBeCut) {
  std::set<std::string> names;
  for (const auto& file : nn::test::golden_files()) names.insert(file.stem().string());
  for (const auto& [parts, models] : kCanBeCut) {
    for (const std::string& model : models) EXPECT_TRUE(names.contains(model)) << model;
  }
}

TEST(HoldChannels, WhatDoesNotDivideIsRefusedByNumber) {
  nn::UNet2DConfig config;
  config.sample_size = {16, 16};
  config.down_block_types = {"DownBlock2D"};
  config.up_block_types = {"UpBlock2D"};
  config.block_out_channels = {24};
  config.norm_num_groups = 6;
  config.add_attention = false;
  nn::UNet2D unet(config);
  try {
    unet.hold_channels(0, 4);
    FAIL() << "6 groups over 4 ranks";
  } catch (const base::ConfigError& error) {
    EXPECT_STREQ(error.what(),
                 "parallel.tensor_size = 4: down_blocks.0.resnets.0.conv1.weight has 6 groups of a norm or of "
                 "attention's heads, which stay whole; wanted: a divisor of 6, see model.norm_num_groups and "
                 "model.attention_head_dim (K blocks have a group for 32 channels)");
  }
}

}  // namespace
}  // namespace ddpm::parallel
