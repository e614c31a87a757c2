// What a plan counts of a tile's messages is what a training pass of the same tile sends.
#include "parallel/planned_tile.h"

#include <vector>

#include <ATen/Functions.h>
#include <gtest/gtest.h>

#include "nn/ops/convolution.h"
#include "nn/unet2d.h"
#include "parallel/activation_count.h"
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

TEST(PlannedTile, CountsWhatATrainingPassSends) {
  const nn::UNet2DConfig config = small_unet();
  for (const std::vector<int64_t>& parts : {std::vector<int64_t>{3, 1}, {2, 2}}) {
    const layout::Tiling tiling({24, 16}, parts, nn::size_multiple(config));
    for (int64_t number = 0; number < tiling.count(); ++number) {
      SCOPED_TRACE(testing::Message() << parts[0] << " x " << parts[1] << ", tile " << number);
      const nn::UNet2D unet(config);
      ddpm::test::TrafficCounts counts;
      ddpm::test::FakeCommunicator ranks(static_cast<int>(number), static_cast<int>(tiling.count()), counts);
      const TilePartition tile(tiling, unet.image_shape(), &ranks);
      nn::allocate(unet.parameters(), at::kFloat);
      nn::initialize(unet.parameters(), 1);
      for (nn::Parameter* p : unet.parameters()) p->value.set_requires_grad(true);
      const at::Tensor x = tile.cut(at::randn({1, 2, 24, 16}).contiguous(at::MemoryFormat::ChannelsLast));
      unet.forward(x, at::ones({1}, at::kLong), {}, {.training = true}, tile).sum().backward();

      const PlannedTile planned(tiling, unet.image_shape(), number);
      const ActivationBatch batch{.images = 1, .height = x.size(2), .width = x.size(3), .partition = &planned};
      (void)count_activations(config, at::kFloat, batch, ActivationCheckpointing::none);
      const int64_t others = tiling.count() - 1;
      const int64_t numbers = counts[Operation::all_gather].bytes / tiling.count() * others;
      EXPECT_EQ(planned.forward().bytes + planned.backward().bytes, counts[Operation::send].bytes + numbers);
      EXPECT_EQ(planned.forward().messages + planned.backward().messages,
                counts[Operation::send].calls + counts[Operation::all_gather].calls * others);
    }
  }
}

TEST(PlannedTile, CountsTheSumsOverChannelsOfATrainingPass) {
  constexpr int kParts = 2;
  const layout::Tiling whole({24, 16}, {1, 1}, 2);
  nn::UNet2D unet(small_unet());
  unet.hold_channels(0, kParts);
  ddpm::test::TrafficCounts counts;
  ddpm::test::FakeCommunicator channels(0, kParts, counts);
  const TilePartition part(whole, unet.image_shape(), nullptr, &channels);
  nn::allocate(unet.parameters(), at::kFloat);
  nn::initialize(unet.parameters(), 1);
  for (nn::Parameter* p : unet.parameters()) p->value.set_requires_grad(true);
  const at::Tensor x = at::randn({1, 2, 24, 16}).contiguous(at::MemoryFormat::ChannelsLast);
  unet.forward(x, at::ones({1}, at::kLong), {}, {.training = true}, part).sum().backward();

  bind_on_meta(unet, at::kFloat);
  const PlannedTile planned(whole, unet.image_shape(), 0, kParts);
  const ActivationBatch batch{.images = 1, .height = x.size(2), .width = x.size(3), .partition = &planned};
  (void)count_activations(unet, batch, ActivationCheckpointing::none);
  EXPECT_GT(planned.channels().sums, 0);
  EXPECT_EQ(planned.channels().sums, counts[Operation::all_reduce].calls);
  EXPECT_EQ(planned.channels().bytes, counts[Operation::all_reduce].bytes);
}

}  // namespace
}  // namespace ddpm::parallel
