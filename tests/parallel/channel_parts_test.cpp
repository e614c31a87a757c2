// Every golden model whose blocks are cut by channels, a part on each rank: what diffusers predicts, and its gradients.
#include <string>

#include <ATen/Functions.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "comm/collectives.h"
#include "nn/golden_gradients.h"
#include "parallel/tensor_buffer.h"
#include "parallel/tile_partition.h"
#include "support/mpi_test.h"

namespace ddpm::parallel {
namespace {

using nn::test::GoldenCase;

/// `parts` of a golden model's channels, and as many tiles of its images as the other ranks make.
class CutByChannels : public testing::TestWithParam<std::filesystem::path> {
 protected:
  CutByChannels() : golden_(nn::test::read_golden(GetParam())) {}

  /// Calls `check` with this rank's part of the model, and what it holds of it. Skips what cannot be cut so.
  template <typename Check>
  void with_parts(int parts, const Check& check) {
    nn::UNet2D unet(nn::test::config_from_json(golden_.config));
    const auto channels = world_.split(world_.rank() / parts, world_.rank());
    const auto tiles = world_.split(world_.rank() % parts, world_.rank());
    const std::vector<int64_t> sides = {golden_.x.size(2), golden_.x.size(3)};
    const int64_t unit = nn::size_multiple(unet.config());
    if (!layout::Tiling::refusal(sides, {tiles->size(), 1}, unit).empty()) return;
    try {
      unet.hold_channels(channels->rank(), parts);
    } catch (const base::ConfigError&) {
      return;
    }
    ++checked_;
    SCOPED_TRACE(testing::Message() << parts << " parts x " << tiles->size() << " tiles");
    nn::test::bind_weights(unet.parameters(), golden_, at::kFloat);
    const TilePartition partition(layout::Tiling(sides, {tiles->size(), 1}, unit), unet.image_shape(),
                                  tiles->size() > 1 ? tiles.get() : nullptr, channels.get());
    check(unet, partition, *tiles);
  }

  /// || a - b || / || b || over all tiles.
  [[nodiscard]] double error_of(const at::Tensor& a, const at::Tensor& b) const {
    at::Tensor squares = at::stack({(a - b).square().sum(), b.square().sum()}).to(at::kDouble);
    world_.all_reduce(buffer_of(squares), comm::ReduceOp::sum).wait();
    return std::sqrt((squares[0] / squares[1]).item<double>());
  }

  GoldenCase golden_;
  int checked_ = 0;
  comm::Communicator& world_ = ddpm::test::world();
};

TEST_P(CutByChannels, PredictsWhatDiffusersPredicts) {
  const at::NoGradGuard no_grad;
  for (int parts = 2; parts <= world_.size(); ++parts) {
    if (world_.size() % parts != 0) continue;
    with_parts(parts, [&](const nn::UNet2D& unet, const nn::Partition& part, comm::Communicator& /*tiles*/) {
      const at::Tensor y = unet.forward(part.cut(golden_.x), golden_.timesteps, golden_.class_labels, {}, part);
      EXPECT_LT(error_of(y, part.cut(golden_.output)), golden_.exact ? 2e-5 : 1e-5);
      const std::vector<double> sums = comm::all_gather(world_, std::vector<double>{y.sum().item<double>()});
      for (int rank = 1; rank < parts; ++rank) EXPECT_EQ(sums[static_cast<std::size_t>(rank)], sums[0]);
    });
  }
  if (checked_ == 0) GTEST_SKIP() << "its groups or heads cannot be cut";
}

TEST_P(CutByChannels, GradientsArePartsOfThoseOfDiffusers) {
  for (int parts = 2; parts <= world_.size(); ++parts) {
    if (world_.size() % parts != 0) continue;
    with_parts(parts, [&](const nn::UNet2D& unet, const nn::Partition& part, comm::Communicator& tiles) {
      const at::Tensor y = unet.forward(part.cut(golden_.x), golden_.timesteps, golden_.class_labels, {}, part);
      const at::Tensor errors = (y - part.cut(golden_.target)).square();
      (errors.sum() / static_cast<double>(golden_.target.numel())).backward();
      for (const nn::Parameter* p : unet.parameters()) {
        if (p->role != base::ParameterRole::trained) continue;
        at::Tensor& gradient = p->value.mutable_grad();
        gradient = gradient.contiguous();
        tiles.all_reduce(buffer_of(gradient), comm::ReduceOp::sum).wait();
      }
      nn::test::expect_gradients(unet, golden_);
    });
  }
  if (checked_ == 0) GTEST_SKIP() << "its groups or heads cannot be cut";
}

INSTANTIATE_TEST_SUITE_P(Files, CutByChannels, testing::ValuesIn(nn::test::golden_files()),
                         [](const auto& file) { return file.param.stem().string(); });

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
    EXPECT_STREQ(
        error.what(),
        "parallel.tensor_size = 4: down_blocks.0.resnets.0.conv1.weight has 6 heads of attention or groups of a "
        "norm, which are not cut; wanted: a divisor of 6 (model.norm_num_groups, model.attention_head_dim)");
  }
}

}  // namespace
}  // namespace ddpm::parallel
