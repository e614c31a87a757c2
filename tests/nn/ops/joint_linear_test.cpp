// Three layers at once against LibTorch's linear layers one by one.
#include "nn/ops/joint_linear.h"

#include <array>
#include <memory>
#include <tuple>
#include <utility>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "nn/saved_tensors.h"

namespace ddpm::nn {
namespace {

struct Layers {
  at::Tensor x;
  std::array<LinearWeights, 3> weights;
};

Layers layers(at::ScalarType dtype) {
  at::manual_seed(3);
  const auto random = [dtype](at::IntArrayRef sizes) { return at::randn(sizes).to(dtype).requires_grad_(); };
  return {random({2, 5, 16}),
          {{{random({16, 16}), random({16})}, {random({8, 16}), random({8})}, {random({24, 16}), random({24})}}}};
}

/// Results, then the gradients of x, weights and biases.
std::vector<at::Tensor> run(Layers layers, bool jointly) {
  std::array<at::Tensor, 3> y;
  if (jointly) {
    y = joint_linear(layers.x, layers.weights);
  } else {
    for (std::size_t i = 0; i < 3; ++i) y[i] = at::linear(layers.x, layers.weights[i].weight, layers.weights[i].bias);
  }
  at::Tensor loss = at::zeros({});
  for (std::size_t i = 0; i < 3; ++i) {
    const at::Tensor factors = at::arange(y[i].numel(), at::kFloat).view(y[i].sizes()).sin();
    loss = loss + (y[i].to(at::kFloat) * factors).sum();
  }
  loss.backward();
  std::vector<at::Tensor> results{y[0].detach(), y[1].detach(), y[2].detach(), layers.x.grad()};
  for (const LinearWeights& one : layers.weights) results.insert(results.end(), {one.weight.grad(), one.bias.grad()});
  return results;
}

TEST(JointLinear, IsThreeLayers) {
  for (const auto& [dtype, tolerance] :
       {std::pair(at::kDouble, 1e-13), std::pair(at::kFloat, 1e-5), std::pair(at::kBFloat16, 3e-2)}) {
    const auto expected = run(layers(dtype), false);
    const auto found = run(layers(dtype), true);
    ASSERT_EQ(found.size(), expected.size());
    for (std::size_t i = 0; i < found.size(); ++i) {
      ASSERT_TRUE(found[i].defined()) << i;
      EXPECT_EQ(found[i].sizes(), expected[i].sizes()) << i;
      EXPECT_EQ(found[i].scalar_type(), dtype);
      EXPECT_TRUE(at::allclose(found[i], expected[i], tolerance, tolerance)) << dtype << ", result " << i;
    }
  }
}

TEST(JointLinear, ResultsLieBesideEachOther) {
  const Layers some = layers(at::kFloat);
  const auto y = joint_linear(some.x, some.weights);
  for (const at::Tensor& one : y) EXPECT_EQ(one.strides(), (std::vector<int64_t>{5 * 48, 48, 1}));
  EXPECT_EQ(y[1].const_data_ptr<float>(), y[0].const_data_ptr<float>() + 16);
}

TEST(JointLinear, FrozenLayersGetNoGradient) {
  Layers some = layers(at::kFloat);
  for (LinearWeights& one : some.weights) one = {one.weight.detach(), one.bias.detach()};
  const auto y = joint_linear(some.x, some.weights);
  (y[0].sum() + y[2].sum()).backward();  // nothing uses the keys
  const at::Tensor expected = some.weights[0].weight.sum(0) + some.weights[2].weight.sum(0);
  EXPECT_TRUE(at::allclose(some.x.grad(), expected.expand_as(some.x), 1e-5, 1e-5));
}

/// Adds up the values that are saved.
class Values : public SavedTensorHandler {
 public:
  std::unique_ptr<SavedTensor> save(const at::Tensor& tensor) override {
    saved += tensor.numel();
    return std::make_unique<Kept>(tensor.detach());
  }
  int64_t saved = 0;

 private:
  struct Kept : SavedTensor {
    explicit Kept(at::Tensor t) : tensor(std::move(t)) {}
    at::Tensor restore() override { return tensor; }
    at::Tensor tensor;
  };
};

TEST(JointLinear, SavesWhatAGradientNeedsAlone) {
  constexpr int64_t kValues = 2 * 5 * 16;  // of x
  constexpr int64_t kWeights = (16 + 8 + 24) * 16;
  for (const auto& [of_x, of_weights, of_biases, saved] : {std::tuple{true, true, true, kValues + kWeights},
                                                           {true, false, false, kWeights},
                                                           {false, true, true, kValues},
                                                           {false, true, false, kValues},
                                                           {false, false, true, int64_t{0}},
                                                           {true, false, true, kWeights}}) {
    const auto some = [&, want = std::array{of_x, of_weights, of_biases}] {
      Layers l = layers(at::kFloat);
      l.x = l.x.detach().set_requires_grad(want[0]);
      for (LinearWeights& one : l.weights) {
        one = {one.weight.detach().set_requires_grad(want[1]), one.bias.detach().set_requires_grad(want[2])};
      }
      return l;
    };
    const auto expected = run(some(), false);
    Values values;
    const SavedTensorScope scope(values);
    (void)joint_linear(some().x, some().weights);
    EXPECT_EQ(values.saved, saved);
    const auto found = run(some(), true);
    ASSERT_EQ(found.size(), expected.size());
    for (std::size_t i = 0; i < found.size(); ++i) {
      ASSERT_EQ(found[i].defined(), expected[i].defined()) << i;
      EXPECT_TRUE(!found[i].defined() || at::allclose(found[i], expected[i], 1e-5, 1e-5)) << i;
    }
  }
}

}  // namespace
}  // namespace ddpm::nn
