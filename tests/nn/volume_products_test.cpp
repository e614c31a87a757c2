// Convolutions of volumes in bfloat16, of sizes that are drawn: right, and within their memory. DDPM_DRAWN_VOLUMES
// draws more of them.
#include "nn/ops/volume_products.h"

#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>

#include "nn/ops/convolution.h"
#include "nn/ops/float_products.h"
#include "nn/ops/volume.h"

namespace ddpm::nn {
namespace {

struct DrawnVolume {
  std::vector<int64_t> x;
  int64_t outputs;
  int64_t stride;
};

DrawnVolume draw(std::mt19937& random) {
  const auto one_of = [&](const std::vector<int64_t>& values) { return values[random() % values.size()]; };
  constexpr int64_t kMostElements = 1 << 20;
  while (true) {
    DrawnVolume drawn{.x = {one_of({1, 1, 2}), one_of({3, 8, 16, 24, 32, 64}), one_of({1, 2, 3, 4, 8, 12}),
                            one_of({1, 2, 3, 16, 33, 64, 130}), one_of({1, 2, 3, 5, 16, 33, 96, 130})},
                      .outputs = one_of({1, 3, 8, 16, 32, 64}),
                      .stride = one_of({1, 1, 2})};
    if (c10::multiply_integers(drawn.x) <= kMostElements) return drawn;
  }
}

/// The result and the gradients of image, weight and bias.
template <typename Convolution>
std::vector<at::Tensor> results_of(const Convolution& convolution, const std::vector<at::Tensor>& inputs) {
  std::vector<at::Tensor> leaves;
  leaves.reserve(inputs.size());
  for (const at::Tensor& input : inputs) leaves.push_back(input.detach().requires_grad_());
  const at::Tensor y = convolution(leaves[0], leaves[1], leaves[2]);
  y.square().sum().backward();
  return {y.detach(), leaves[0].grad(), leaves[1].grad(), leaves[2].grad()};
}

TEST(VolumeProducts, AreRightAndStayInTheirMemory) {
  constexpr int kDrawn = 60;
  constexpr double kRounding = 0x1p-7;
  const char* more = std::getenv("DDPM_DRAWN_VOLUMES");
  const int count = more == nullptr ? kDrawn : std::stoi(more);
  std::mt19937 random(7);
  at::manual_seed(7);
  for (int i = 0; i < count; ++i) {
    // LibTorch 2.11's own gradient of the weight leaves its memory of the first one, with AMX.
    const DrawnVolume drawn = i == 0 ? DrawnVolume{.x = {1, 32, 1, 96, 96}, .outputs = 32, .stride = 1} : draw(random);
    SCOPED_TRACE(testing::PrintToString(drawn.x) + " to " + std::to_string(drawn.outputs) + ", stride " +
                 std::to_string(drawn.stride));
    const auto image = whole_image({.depth = drawn.x[2], .width = drawn.x[4]});
    const ConvolutionOptions options{.kernel = 3, .stride = drawn.stride, .dimensions = 3};
    const auto ours = [&](const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
      const at::Tensor y = convolution(image_of_volume(x), weight, bias, options, *image);
      return volume_of(y, (drawn.x[2] - 1) / drawn.stride + 1);
    };
    const auto reference = [&](const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
      const std::vector<int64_t> padding = {1, 1, 1};
      return convolution_in_float(x, weight, bias, drawn.stride, padding);
    };
    const auto values = [](const std::vector<int64_t>& sizes) { return at::randn(sizes, at::kBFloat16); };
    const std::vector<at::Tensor> inputs = {values(drawn.x).contiguous(at::MemoryFormat::ChannelsLast3d),
                                            values({drawn.outputs, drawn.x[1], 3, 3, 3}), values({drawn.outputs})};
    const std::vector<at::Tensor> seen = results_of(ours, inputs);
    const std::vector<at::Tensor> wanted = results_of(reference, inputs);
    for (std::size_t result = 0; result < seen.size(); ++result) {
      const double error = (seen[result].to(at::kFloat) - wanted[result].to(at::kFloat)).norm().item<double>();
      EXPECT_LT(error, kRounding * wanted[result].to(at::kFloat).norm().item<double>()) << result;
    }
  }
}

}  // namespace
}  // namespace ddpm::nn
