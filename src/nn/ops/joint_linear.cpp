#include "nn/ops/joint_linear.h"

#include <algorithm>
#include <cstddef>
#include <span>
#include <utility>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/linear.h>
#include <torch/csrc/autograd/custom_function.h>

#include "base/check.h"
#include "nn/ops/column_sums.h"

namespace ddpm::nn {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct JointLinear : torch::autograd::Function<JointLinear> {
  /// Saves what gradients are made of, and the weights, not their concatenation, which is made again: less memory
  /// between forward and backward.
  static variable_list forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& weight0,
                               const at::Tensor& bias0, const at::Tensor& weight1, const at::Tensor& bias1,
                               const at::Tensor& weight2, const at::Tensor& bias2) {
    const bool learns = weight0.requires_grad() || weight1.requires_grad() || weight2.requires_grad();
    variable_list saved{learns ? x : at::Tensor()};
    if (x.requires_grad()) saved.insert(saved.end(), {weight0, weight1, weight2});
    context->save_for_backward(std::move(saved));
    const at::Tensor y = at::linear(x, at::cat({weight0, weight1, weight2}), at::cat({bias0, bias1, bias2}));
    return y.split_with_sizes({weight0.size(0), weight1.size(0), weight2.size(0)}, -1);
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    DDPM_CHECK(!at::GradMode::is_enabled(), "joint_linear has no second derivative");
    const variable_list saved = context->get_saved_variables();
    const auto wanted = [context](std::span<const std::size_t> inputs) {
      return std::ranges::any_of(inputs, [context](std::size_t i) { return context->needs_input_grad(i); });
    };
    const at::Tensor dy = at::cat({gradients[0], gradients[1], gradients[2]}, -1);
    const at::Tensor rows = dy.reshape({-1, dy.size(-1)});
    const std::array sizes{gradients[0].size(-1), gradients[1].size(-1), gradients[2].size(-1)};
    variable_list results(kInputs);
    const auto set = [&](std::span<const std::size_t> inputs, const at::Tensor& gradient) {
      const auto parts = gradient.split_with_sizes(sizes);
      for (std::size_t i = 0; i < inputs.size(); ++i) results[inputs[i]] = parts[i];
    };
    if (context->needs_input_grad(0)) results[0] = dy.matmul(at::cat({saved[1], saved[2], saved[3]}));
    if (wanted(kWeights)) set(kWeights, rows.t().mm(saved[0].reshape({-1, saved[0].size(-1)})));
    if (wanted(kBiases)) set(kBiases, column_sums(rows));
    return results;
  }

 private:
  static constexpr std::size_t kInputs = 7;
  // Places among them; x is the first.
  static constexpr std::array<std::size_t, 3> kWeights = {1, 3, 5};
  static constexpr std::array<std::size_t, 3> kBiases = {2, 4, 6};
};

}  // namespace

std::array<at::Tensor, 3> joint_linear(const at::Tensor& x, const std::array<LinearWeights, 3>& layers) {
  const auto& [q, k, v] = layers;
  const variable_list y = JointLinear::apply(x, q.weight, q.bias, k.weight, k.bias, v.weight, v.bias);
  return {y[0], y[1], y[2]};
}

}  // namespace ddpm::nn
