// What a prepared layer computes in bfloat16, against float64's convolution: by tiles where the processor has them, for
// any border, stride and repeated pixels. The bits depend neither on threads nor on the images beside one.
#include "nn/ops/tile_convolution.h"

#include <limits>
#include <utility>
#include <vector>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "nn/layers.h"
#include "nn/ops/cpu/kernels.h"
#include "nn/ops/resample.h"
#include "nn/ops/threads.h"
#include "nn/ops/winograd.h"
#include "nn/waves.h"

namespace ddpm::nn {
namespace {

using test::difference;
using test::Threads;

/// Waves whose sums cancel would have large relative errors.
at::Tensor normal(at::IntArrayRef sizes, uint64_t seed) {
  return at::randn(sizes, at::make_generator<at::CPUGeneratorImpl>(seed)).to(at::kBFloat16);
}

struct ConvolutionCase {
  int64_t images;
  int64_t height;  // of x
  int64_t width;
  int64_t in;
  int64_t out;
  ConvolutionOptions options = {};
  bool repeated = false;
};

constexpr ConvolutionOptions kHalved{.stride = 2};
constexpr ConvolutionOptions kHalvedFromFirst{.stride = 2, .before = 0};

class Layer {
 public:
  explicit Layer(const ConvolutionCase& c) : case_(c), layer_("layer", c.in, c.out, c.options) {
    OwnedLayers owned;
    layer_.collect(owned);
    weight_ = normal({c.out, c.in, 3, 3}, 1) / 8.0;
    bias_ = normal({c.out}, 2);
    owned.parameters[0]->value = weight_;
    if (c.options.bias) owned.parameters[1]->value = bias_;
    layer_.prepare_for_inference(c.repeated);
  }

  [[nodiscard]] at::Tensor image() const { return normal({case_.images, case_.in, case_.height, case_.width}, 3); }
  [[nodiscard]] at::Tensor computed(const at::Tensor& x) const {
    return case_.repeated ? layer_.forward_repeated(x, whole_image()) : layer_.forward(x, whole_image());
  }
  /// Whether a kernel of this library computes it, not LibTorch, whose sums depend on how it deals out its work.
  [[nodiscard]] bool is_ours() const {
    return cpu::tile_kernels() != nullptr || winograd_serves(weight_, /*stride=*/1, {1, 1});
  }
  [[nodiscard]] at::Tensor exact(const at::Tensor& x_any) const {
    const auto exactly = [](const at::Tensor& t) { return t.to(at::kDouble); };
    const at::Tensor x = case_.repeated ? resample(x_any, Resampling::up, ResamplingFilter::box, whole_image()) : x_any;
    const ConvolutionOptions& o = case_.options;
    const at::Tensor padded = at::constant_pad_nd(exactly(x), {o.before, o.after, o.before, o.after});
    return at::conv2d(padded, exactly(weight_), o.bias ? exactly(bias_) : at::Tensor(), o.stride);
  }

 private:
  ConvolutionCase case_;
  Convolution layer_;
  at::Tensor weight_;
  at::Tensor bias_;
};

class TileConvolution : public testing::Test {
  const at::NoGradGuard no_grad_;
};

std::vector<ConvolutionCase> cases() {
  std::vector<ConvolutionCase> all;
  for (const auto& [height, width] : std::vector<std::pair<int64_t, int64_t>>{
           {1, 1}, {2, 2}, {4, 4}, {8, 8}, {16, 16}, {6, 14}, {10, 34}, {2, 62}, {30, 2}, {18, 48}, {4, 30}}) {
    for (const bool repeated : {false, true}) all.push_back({2, height, width, 32, 64, {}, repeated});
    if (height == 1) continue;
    for (const ConvolutionOptions& halved : {kHalved, kHalvedFromFirst}) {
      all.push_back({2, height, width, 64, 32, halved});
    }
  }
  for (const auto& [height, width] : std::vector<std::pair<int64_t, int64_t>>{{5, 7}, {15, 33}, {3, 17}}) {
    all.push_back({1, height, width, 96, 32});
    all.push_back({1, height, width, 32, 96, {.bias = false}, true});
  }
  all.push_back({1, 97, 80, 64, 32});  // more rows than a part has, and fewer in the last one
  all.push_back({1, 98, 160, 64, 32, kHalved});
  all.push_back({1, 91, 70, 64, 32, {}, true});
  all.push_back({1, 3, 700, 224, 32});  // a row that fills a part
  return all;
}

TEST_F(TileConvolution, IsTheConvolutionForAnyBorder) {
  for (const ConvolutionCase& c : cases()) {
    SCOPED_TRACE(testing::Message() << c.height << " x " << c.width << ", " << c.in << " to " << c.out << ", stride "
                                    << c.options.stride << " from " << c.options.before
                                    << (c.repeated ? ", repeated" : ""));
    const Layer layer(c);
    const at::Tensor x = layer.image();
    const at::Tensor seen = layer.computed(x);
    // Half a unit of the last place, and sums of taps that are rounded before they are multiplied.
    EXPECT_LT(difference(seen.to(at::kDouble), layer.exact(x)), c.repeated ? 0.01 : 0.6 / 128);
  }
}

TEST_F(TileConvolution, KeepsTheBorderApartFromImagesThatAreNotNumbers) {
  const Layer layer({2, 5, 9, 32, 32});
  at::Tensor x = layer.image();
  const at::Tensor whole = layer.computed(x);
  x[0] = at::full_like(x[0], std::numeric_limits<double>::quiet_NaN());
  const at::Tensor seen = layer.computed(x);
  EXPECT_FALSE(at::isfinite(seen[0]).any().item<bool>());
  EXPECT_TRUE(at::equal(seen[1], whole[1]));
}

TEST_F(TileConvolution, HasTheSameBitsInAnyBatchOnAnyNumberOfThreads) {
  for (const ConvolutionCase& c :
       std::vector<ConvolutionCase>{{3, 9, 10, 64, 96}, {3, 97, 80, 64, 64}, {3, 9, 10, 32, 96, {}, true}}) {
    const Layer layer(c);
    const at::Tensor x = layer.image().contiguous(at::MemoryFormat::ChannelsLast);
    const auto with = [&](int threads) {
      const Threads scope(threads);
      return layer.computed(x);
    };
    const at::Tensor wanted = with(1);
    const auto agrees = [&](const at::Tensor& seen, const at::Tensor& image) {
      if (layer.is_ours()) return at::equal(seen, image);
      return difference(seen.to(at::kDouble), image.to(at::kDouble)) < 0.01;
    };
    for (const int threads : {2, 3, 8}) EXPECT_TRUE(agrees(with(threads), wanted)) << threads;
    for (int64_t n = 0; n < c.images; ++n) {
      EXPECT_TRUE(agrees(layer.computed(x.narrow(0, n, 1)), wanted.narrow(0, n, 1))) << n;
    }
  }
}

TEST_F(TileConvolution, ServesWhatItComputesOnly) {
  const auto serves = [](at::IntArrayRef shape, const ConvolutionOptions& options,
                         at::ScalarType dtype = at::kBFloat16) {
    return tile_convolution_serves(at::zeros(shape, dtype), options);
  };
  const bool tiles = cpu::tile_kernels() != nullptr;
  EXPECT_EQ(serves({32, 64, 3, 3}, {}), tiles);
  EXPECT_EQ(serves({32, 64, 3, 3}, kHalved), tiles);
  EXPECT_EQ(serves({32, 64, 3, 3}, kHalvedFromFirst), tiles);
  EXPECT_FALSE(serves({32, 64, 3, 3}, {}, at::kFloat));
  EXPECT_FALSE(serves({48, 64, 3, 3}, {}));
  EXPECT_FALSE(serves({32, 3, 3, 3}, {}));
  EXPECT_FALSE(serves({32, 64, 3, 3}, {.before = 0}));
  EXPECT_FALSE(serves({32, 64, 3, 3}, {.stride = 2, .before = 0, .after = 0}));
  EXPECT_FALSE(serves({32, 64, 1, 1}, pointwise(2)));
  EXPECT_FALSE(serves({32, 64, 3, 3, 3}, {.dimensions = 3}));
}

}  // namespace
}  // namespace ddpm::nn
