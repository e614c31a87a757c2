#include "nn/ops/float_products.h"

#include <cmath>
#include <functional>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/conv3d.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/linspace.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/softmax.h>
#include <gtest/gtest.h>

#include "nn/ops/convolution.h"
#include "nn/ops/volume.h"

namespace ddpm::nn {
namespace {

at::Tensor leaf(at::IntArrayRef sizes, at::ScalarType dtype) {
  const at::Tensor values = at::randn(sizes, at::kDouble).to(dtype);
  return (sizes.size() == 4 ? values.contiguous(at::MemoryFormat::ChannelsLast) : values).requires_grad_();
}

using Product = std::function<at::Tensor(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias)>;

/// The result and the three gradients, of a loss whose gradient, exact in `dtype`, differs from element to element.
std::vector<at::Tensor> run(const Product& product, const std::vector<at::Tensor>& inputs, at::ScalarType dtype) {
  const at::Tensor y = product(inputs[0], inputs[1], inputs[2]);
  const at::Tensor dy = at::linspace(0.5, 1, y.numel()).to(dtype).to(y.scalar_type()).view(y.sizes());
  (y * dy).sum().backward();
  std::vector<at::Tensor> results = {y.detach()};
  for (const at::Tensor& input : inputs) results.push_back(input.grad());
  return results;
}

/// Each result has the dtype of the inputs and is the float64 result, rounded to it once or twice.
void expect_near(const Product& ours, const Product& reference, const std::vector<at::Tensor>& inputs,
                 double roundings = 1.0) {
  std::vector<at::Tensor> wide;
  wide.reserve(inputs.size());
  for (const at::Tensor& input : inputs) wide.push_back(input.detach().to(at::kDouble).requires_grad_());
  const at::ScalarType dtype = inputs[0].scalar_type();
  const std::vector<at::Tensor> seen = run(ours, inputs, dtype);
  const std::vector<at::Tensor> wanted = run(reference, wide, dtype);
  const double epsilon = dtype == at::kBFloat16 ? 0x1p-8 : 0x1p-11;
  for (std::size_t i = 0; i < seen.size(); ++i) {
    SCOPED_TRACE(i);
    EXPECT_EQ(seen[i].scalar_type(), dtype);
    EXPECT_EQ(seen[i].sizes(), wanted[i].sizes());
    const double error = (seen[i].to(at::kDouble) - wanted[i]).norm().item<double>();
    EXPECT_LT(error, roundings * epsilon * wanted[i].norm().item<double>());
  }
}

class FloatProducts : public testing::TestWithParam<at::ScalarType> {
 protected:
  void SetUp() override { at::manual_seed(5); }
};

TEST_P(FloatProducts, LinearLayersAreThoseOfFloat64) {
  for (const std::vector<int64_t>& rows : std::vector<std::vector<int64_t>>{{3, 20}, {2, 7, 20}}) {
    expect_near(linear_in_float,
                [](const at::Tensor& x, const at::Tensor& w, const at::Tensor& b) { return at::linear(x, w, b); },
                {leaf(rows, GetParam()), leaf({5, 20}, GetParam()), leaf({5}, GetParam())});
  }
}

TEST_P(FloatProducts, ConvolutionsAreThoseOfFloat64) {
  for (const int64_t stride : {1, 2}) {
    const std::vector<int64_t> padding = {1, 0};
    const auto ours = [&](const at::Tensor& x, const at::Tensor& w, const at::Tensor& b) {
      return convolution_in_float(x, w, b, stride, padding);
    };
    const auto reference = [&](const at::Tensor& x, const at::Tensor& w, const at::Tensor& b) {
      return at::conv2d(x, w, b, stride, padding);
    };
    const std::vector<at::Tensor> inputs = {leaf({2, 3, 8, 9}, GetParam()), leaf({4, 3, 3, 3}, GetParam()),
                                            leaf({4}, GetParam())};
    expect_near(ours, reference, inputs);
    EXPECT_TRUE(ours(inputs[0], inputs[1], inputs[2]).is_contiguous(at::MemoryFormat::ChannelsLast));
  }
}

TEST_P(FloatProducts, AnImageWithoutGradientGetsNone) {
  const at::Tensor x = leaf({1, 2, 4, 4}, GetParam()).detach();
  const at::Tensor w = leaf({3, 2, 3, 3}, GetParam());
  const at::Tensor b = leaf({3}, GetParam());
  const std::vector<int64_t> padding = {1, 1};
  convolution_in_float(x, w, b, 1, padding).sum().backward();
  EXPECT_FALSE(x.grad().defined());
  EXPECT_TRUE(w.grad().defined());
  EXPECT_EQ(b.grad().to(at::kDouble).sum().item<double>(), 3.0 * 16.0);
}

TEST_P(FloatProducts, AttentionIsThatOfFloat64) {
  const auto reference = [](const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
    return at::softmax(q.matmul(k.transpose(2, 3)) / std::sqrt(12.0), 3).matmul(v);
  };
  const auto rows = [](int64_t count) {
    return leaf({2, 3, count, 12}, GetParam()).detach().contiguous().requires_grad_();
  };
  expect_near(attention_in_float, reference, {rows(20), rows(25), rows(25)}, 3.0);  // backward uses the rounded result
}

INSTANTIATE_TEST_SUITE_P(In, FloatProducts, testing::Values(at::kBFloat16, at::kHalf));

// LibTorch's own one is not with AMX.
TEST(Convolution, ToOneColumnIsThatOfFloat64InBFloat16) {
  const std::vector<at::Tensor> inputs = {leaf({2, 256, 24, 2}, at::kBFloat16), leaf({64, 256, 3, 3}, at::kBFloat16),
                                          leaf({64}, at::kBFloat16)};
  const Product halved = [](const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
    return convolution(x, weight, bias, {.stride = 2}, whole_image());
  };
  const Product reference = [](const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
    return at::conv2d(x, weight, bias, 2, 1);
  };
  expect_near(halved, reference, inputs);
}

struct Volume {
  std::vector<int64_t> x;
  int64_t outputs = 8;
  int64_t stride = 1;
  int64_t before = 1;
};

// LibTorch's own gradient of the weight is not where there are few planes and AMX, and ends the program; results of one
// plane or column are undefined there. The last one is so large that the weight's gradient is computed piece by piece.
TEST(Convolution, OfVolumesIsThatOfFloat64InBFloat16) {
  const std::vector<Volume> volumes = {{.x = {1, 8, 2, 128, 128}},
                                       {.x = {1, 32, 1, 96, 96}, .outputs = 32},
                                       {.x = {2, 3, 1, 130, 2}, .outputs = 16},
                                       {.x = {2, 16, 1, 1, 5}, .outputs = 1},
                                       {.x = {2, 16, 6, 7, 2}, .outputs = 24, .stride = 2},
                                       {.x = {2, 24, 6, 8, 10}, .outputs = 16, .stride = 2, .before = 0},
                                       {.x = {1, 8, 41, 128, 128}, .outputs = 4},
                                       {.x = {1, 8, 82, 90, 90}, .outputs = 4, .stride = 2}};
  for (const Volume& volume : volumes) {
    SCOPED_TRACE(testing::PrintToString(volume.x));
    const int64_t planes = volume.x[2];
    const auto image = whole_image({.depth = planes, .width = volume.x[4]});
    const ConvolutionOptions options{
        .kernel = 3, .stride = volume.stride, .before = volume.before, .after = 1, .dimensions = 3};
    const Product ours = [&](const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
      const at::Tensor y = convolution(image_of_volume(x), weight, bias, options, *image);
      return volume_of(y, (planes + volume.before - 2) / volume.stride + 1);
    };
    const Product reference = [&](const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
      const int64_t before = volume.before;
      return at::conv3d(at::constant_pad_nd(x, {before, 1, before, 1, before, 1}), weight, bias, volume.stride);
    };
    const at::Tensor x = at::randn(volume.x, at::kDouble)
                             .to(at::kBFloat16)
                             .contiguous(at::MemoryFormat::ChannelsLast3d)
                             .requires_grad_();
    expect_near(
        ours, reference,
        {x, leaf({volume.outputs, volume.x[1], 3, 3, 3}, at::kBFloat16), leaf({volume.outputs}, at::kBFloat16)});
  }
}

TEST(WantsFloatProducts, NeverInFloat32) { EXPECT_FALSE(wants_float_products(at::ones({1}))); }

}  // namespace
}  // namespace ddpm::nn
