// Counting what autograd saves: the meta device tells the same as the CPU, and the formula what the allocator sees.
#include "parallel/activation_count.h"

#include <algorithm>
#include <string_view>
#include <tuple>

#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "nn/ops/threads.h"
#include "nn/ops/winograd_scratch.h"
#include "parallel/allocation_peak.h"

namespace ddpm::parallel {
namespace {

constexpr auto kEvery = {ActivationCheckpointing::none, ActivationCheckpointing::blocks,
                         ActivationCheckpointing::attention};

/// Models that together use every operation.
nn::UNet2DConfig model(const std::string& name) {
  nn::UNet2DConfig c;
  c.block_out_channels = {32, 64};
  c.layers_per_block = 1;
  c.down_block_types = {"DownBlock2D", "AttnDownBlock2D"};
  c.up_block_types = {"AttnUpBlock2D", "UpBlock2D"};
  if (name == "resampling") {
    c.downsample_type = nn::ResamplerName::resnet;
    c.upsample_type = nn::ResamplerName::resnet;
    c.down_block_types = {"AttnDownBlock2D", "AttnDownBlock2D"};
    c.up_block_types = {"AttnUpBlock2D", "AttnUpBlock2D"};
    c.resnet_time_scale_shift = nn::TimeScaleShift::scale_shift;
  } else if (name == "classes") {
    c.num_class_embeds = 4;
    c.dropout = 0.1;
    c.downsample_padding = 0;
    c.act_fn = nn::ActivationName::gelu;
  } else if (name == "fourier") {
    c.time_embedding_type = nn::TimeEmbedding::fourier;
    c.mid_block_scale_factor = 1.5;
    c.act_fn = nn::ActivationName::mish;
  } else if (name == "skip") {
    c.down_block_types = {"SkipDownBlock2D", "AttnSkipDownBlock2D"};
    c.up_block_types = {"AttnSkipUpBlock2D", "SkipUpBlock2D"};
  } else if (name == "k") {
    c.down_block_types = {"KDownBlock2D", "KDownBlock2D"};
    c.up_block_types = {"KUpBlock2D", "KUpBlock2D"};
  } else if (name == "residual") {
    c.down_block_types = {"ResnetDownsampleBlock2D", "AttnDownBlock2D"};
    c.up_block_types = {"AttnUpBlock2D", "ResnetUpsampleBlock2D"};
    c.mid_block_type = "";
  }
  return c;
}

nn::UNet2D bound(const nn::UNet2DConfig& config, at::ScalarType dtype, at::Device device) {
  nn::UNet2D unet(config);
  allocate(unet.parameters(), at::TensorOptions(dtype).device(device));
  initialize(unet.parameters(), 0);
  for (nn::Parameter* p : unet.parameters()) p->value.set_requires_grad(p->role == base::ParameterRole::trained);
  return unet;
}

class Counted : public testing::TestWithParam<std::tuple<std::string, at::ScalarType>> {};

TEST_P(Counted, TheMetaDeviceTellsTheSameAsTheCpu) {
  const auto [name, dtype] = GetParam();
  const nn::UNet2D on_cpu = bound(model(name), dtype, at::kCPU);
  const ActivationBatch batch{.images = 3, .height = 16, .width = 24};
  for (const auto kept : kEvery) {
    const ActivationCount meta = count_activations(model(name), dtype, batch, kept);
    const ActivationCount cpu = count_activations(on_cpu, batch, kept);
    ASSERT_EQ(meta.units.size(), cpu.units.size());
    for (std::size_t u = 0; u < cpu.units.size(); ++u) {
      const auto numbers = [](const UnitActivations& a) {
        return std::vector<int64_t>{a.saved, a.recomputed, a.activation, a.skips};
      };
      EXPECT_EQ(numbers(meta.units[u]), numbers(cpu.units[u])) << cpu.units[u].name;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Models, Counted,
    testing::Combine(testing::Values("plain", "resampling", "classes", "fourier", "skip", "k", "residual"),
                     testing::Values(at::kFloat, at::kBFloat16)),
    [](const auto& c) { return std::get<0>(c.param) + "_" + c10::toString(std::get<1>(c.param)); });

TEST(ActivationCount, ChecksWhatAConvolutionsUnitSaves) {
  // The upsampler saves its repeated input for the convolution, and nothing else: [N, 64, 16, 16] floats.
  const ActivationCount count =
      count_activations(model("plain"), at::kFloat, {.images = 2, .height = 16, .width = 16}, {});
  const auto upsampler = std::find_if(count.units.begin(), count.units.end(), [](const UnitActivations& unit) {
    return unit.name == "up_blocks.0.upsamplers.0";
  });
  ASSERT_NE(upsampler, count.units.end());
  EXPECT_EQ(upsampler->saved, int64_t{2} * 64 * 16 * 16 * 4);
  EXPECT_EQ(upsampler->recomputed, 0);
}

TEST(ActivationCount, CheckpointingSavesWhatItComputesAgain) {
  const ActivationBatch batch{.images = 4, .height = 32, .width = 32};
  const auto count = [&](ActivationCheckpointing kept) {
    return count_activations(model("plain"), at::kFloat, batch, kept);
  };
  const ActivationCount none = count(ActivationCheckpointing::none);
  const ActivationCount attention = count(ActivationCheckpointing::attention);
  const ActivationCount blocks = count(ActivationCheckpointing::blocks);
  EXPECT_LT(attention.saved(), none.saved());
  EXPECT_LT(4 * blocks.saved(), none.saved());
  EXPECT_LT(blocks.peak(), none.peak());
  for (const UnitActivations& unit : none.units) EXPECT_EQ(unit.recomputed, 0) << unit.name;
}

/// Elements of it.
int64_t largest_weight(const nn::UNet2D& unet) {
  int64_t most = 0;
  for (const nn::Parameter* p : unet.parameters()) most = std::max(most, p->numel());
  return most;
}

/// The allocator's peak in a pass, forward and backward.
double seen_bytes(const nn::UNet2D& unet, const at::Tensor& x, ActivationCheckpointing kept) {
  ActivationCheckpointer checkpointer(kept);
  const at::Tensor t = at::zeros({x.size(0)}, at::kLong);
  test::AllocationPeak measured;
  unet.forward(x, t, {}, {.training = true}, nn::whole_image(), checkpointer).sum().backward();
  for (const nn::Parameter* p : unet.parameters()) p->value.mutable_grad().reset();
  return static_cast<double>(measured.bytes());
}

TEST(ActivationCount, PeakIsNearWhatTheAllocatorSees) {
  // So many tiles that the block of a weight's gradient at Winograd's points is full.
  const ActivationBatch batch{.images = 8, .height = 32, .width = 32};
  const at::Tensor x = at::zeros({batch.images, 3, batch.height, batch.width});
  for (const char* name : {"plain", "skip", "k", "residual"}) {
    const nn::UNet2DConfig c = model(name);
    const nn::UNet2D unet = bound(c, at::kFloat, at::kCPU);
    for (const auto kept : kEvery) {
      const double seen = seen_bytes(unet, x, kept);
      const int64_t scratch = nn::kWinogradBlockBytes + nn::winograd_weight_bytes(largest_weight(unet));
      const auto predicted = static_cast<double>(count_activations(c, at::kFloat, batch, kept).peak() + scratch);
      std::printf("%s: predicted %.1f MB, measured %.1f MB, ratio %.3f\n", name, predicted / 1e6, seen / 1e6,
                  predicted / seen);
      // An upsampling by filters has several gradients of twice the sides, of which one is counted.
      const bool filters = name == std::string_view("skip") && kept == ActivationCheckpointing::blocks;
      EXPECT_NEAR(predicted / seen, 1.0, filters ? 0.2 : 0.1) << name;
    }
  }
}

TEST(ActivationCount, VolumesInTwoBytesAreConvolvedInFourOnCpus) {
  nn::UNet2DConfig c = model("plain");
  c.down_block_types = {"DownBlock2D", "DownBlock2D"};
  c.up_block_types = {"UpBlock2D", "UpBlock2D"};
  c.add_attention = false;
  c.dimensions = 3;
  c.sample_size = {16, 32, 32};
  const ActivationBatch batch{.images = 2, .height = int64_t{16} * 32, .width = 32};
  const nn::UNet2D unet = bound(c, at::kBFloat16, at::kCPU);
  const at::Tensor x = at::zeros({batch.images, 3, batch.height, batch.width});
  const nn::test::Threads two(2);  // with one, oneDNN reorders images, which is not counted: 10 MB here
  for (const auto kept : {ActivationCheckpointing::none, ActivationCheckpointing::blocks}) {
    const double seen = seen_bytes(unet, x, kept);
    const ActivationCount count = count_activations(c, at::kBFloat16, batch, kept);
    const layout::Range all{0, std::ssize(count.units)};
    const auto predicted = static_cast<double>(count.peak_on_cpus(all, 1));
    EXPECT_GT(predicted, static_cast<double>(count.peak()));
    std::printf("predicted %.1f MB, measured %.1f MB, ratio %.3f\n", predicted / 1e6, seen / 1e6, predicted / seen);
    EXPECT_NEAR(predicted / seen, 1.0, 0.15);
    const ActivationCount single = count_activations(c, at::kFloat, batch, kept);
    EXPECT_EQ(single.peak_on_cpus(all, 1), single.peak());
  }
}

}  // namespace
}  // namespace ddpm::parallel
