// What a plan counts of a tile's messages is what a training pass of the same tile sends.
#include "parallel/planned_tile.h"

#include <string>
#include <vector>

#include <ATen/Functions.h>
#include <gtest/gtest.h>

#include "base/named.h"
#include "nn/ops/convolution.h"
#include "nn/unet2d.h"
#include "parallel/planned_traffic.h"
#include "parallel/tile_partition.h"
#include "support/fake_communicator.h"

namespace ddpm::parallel {
namespace {

using ddpm::test::Operation;

nn::UNet2DConfig small_unet() {
  nn::UNet2DConfig c;
  c.sample_size = {24, 16};
  c.in_channels = 2;
  c.out_channels = 2;
  c.down_block_types = {"DownBlock2D", "AttnDownBlock2D"};
  c.up_block_types = {"AttnUpBlock2D", "UpBlock2D"};
  c.block_out_channels = {8, 16};
  c.layers_per_block = 1;
  c.attention_head_dim = 8;
  c.norm_num_groups = 4;
  return c;
}

TEST(PlannedTile, AConvolutionSendsItsBorderAndTheCornersWithIt) {
  const layout::Tiling tiling({30, 30}, {3, 3}, 2);
  const PlannedTile tile(tiling, {}, tiling.inner());
  const at::Tensor x = at::empty({2, 5, 10, 10}, at::TensorOptions(at::kFloat).device(at::kMeta));
  const at::Tensor weight = at::empty({7, 5, 3, 3}, x.options());
  (void)nn::convolution(x, weight, {}, {}, tile);
  EXPECT_EQ(tile.forward().messages, 8);
  EXPECT_EQ(tile.forward().traded_bytes, tile.forward().bytes);
  EXPECT_EQ(tile.forward().bytes, 2 * 5 * 4 * (2 * 10 + 2 * (10 + 2)));
  EXPECT_EQ(tile.backward().bytes, 0);  // nobody wants the gradient of x
}

/// Forward and backward of the rank that `partition` says.
void train_once(nn::UNet2D& unet, const nn::Partition& partition, ActivationCheckpointing kept) {
  nn::allocate(unet.parameters(), at::kFloat);
  nn::initialize(unet.parameters(), 1);
  for (nn::Parameter* p : unet.parameters()) p->value.set_requires_grad(true);
  const at::Tensor x = partition.cut(at::randn({1, 2, 24, 16}).contiguous(at::MemoryFormat::ChannelsLast));
  ActivationCheckpointer executor(kept);
  unet.forward(x, at::ones({1}, at::kLong), {}, {.training = true}, partition, executor).sum().backward();
}

RankTraffic planned_traffic(nn::UNet2D& unet, const PlannedTile& planned, ActivationCheckpointing kept) {
  bind_on_meta(unet, at::kFloat);
  RankTraffic sum;
  for (const RankTraffic& unit : count_traffic(unet, planned, 1, kept)) sum += unit;
  return sum;
}

class PlannedPass : public testing::TestWithParam<ActivationCheckpointing> {};

TEST_P(PlannedPass, SendsWhatATrainingPassSends) {
  const nn::UNet2DConfig config = small_unet();
  for (const std::vector<int64_t>& parts : {std::vector<int64_t>{3, 1}, {2, 2}}) {
    const layout::Tiling tiling({24, 16}, parts, nn::size_multiple(config));
    for (int64_t number = 0; number < tiling.count(); ++number) {
      SCOPED_TRACE(testing::Message() << parts[0] << " x " << parts[1] << ", tile " << number);
      nn::UNet2D unet(config);
      ddpm::test::TrafficCounts counts;
      ddpm::test::FakeCommunicator ranks(static_cast<int>(number), static_cast<int>(tiling.count()), counts);
      train_once(unet, TilePartition(tiling, unet.image_shape(), &ranks), GetParam());

      const TileTraffic planned =
          planned_traffic(unet, PlannedTile(tiling, unet.image_shape(), number), GetParam()).tiles;
      const int64_t others = tiling.count() - 1;
      const int64_t numbers = counts[Operation::all_gather].bytes / tiling.count() * others;
      EXPECT_EQ(planned.bytes, counts[Operation::send].bytes + numbers);
      EXPECT_EQ(planned.messages, counts[Operation::send].calls + counts[Operation::all_gather].calls * others);
    }
  }
}

TEST_P(PlannedPass, SumsOverChannelsWhatATrainingPassSums) {
  constexpr int kParts = 2;
  const layout::Tiling whole({24, 16}, {1, 1}, 2);
  nn::UNet2D unet(small_unet());
  unet.hold_channels(0, kParts);
  ddpm::test::TrafficCounts counts;
  ddpm::test::FakeCommunicator channels(0, kParts, counts);
  train_once(unet, TilePartition(whole, unet.image_shape(), nullptr, &channels), GetParam());

  const ChannelTraffic planned =
      planned_traffic(unet, PlannedTile(whole, unet.image_shape(), 0, kParts), GetParam()).channels;
  EXPECT_GT(planned.sums, 0);
  EXPECT_EQ(planned.sums, counts[Operation::all_reduce].calls);
  EXPECT_EQ(planned.bytes, counts[Operation::all_reduce].bytes);
}

INSTANTIATE_TEST_SUITE_P(Kept, PlannedPass,
                         testing::Values(ActivationCheckpointing::none, ActivationCheckpointing::attention,
                                         ActivationCheckpointing::blocks),
                         [](const auto& one) { return std::string(base::name_of(one.param)); });

}  // namespace
}  // namespace ddpm::parallel
