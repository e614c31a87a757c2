#include "nn/ops/joint_linear.h"

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
  /// The weights are saved, not their concatenation, which is made again: less memory between forward and backward.
  static variable_list forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& weight0,
                               const at::Tensor& bias0, const at::Tensor& weight1, const at::Tensor& bias1,
                               const at::Tensor& weight2, const at::Tensor& bias2) {
    context->save_for_backward({x, weight0, weight1, weight2});
    const at::Tensor y = at::linear(x, at::cat({weight0, weight1, weight2}), at::cat({bias0, bias1, bias2}));
    return y.split_with_sizes({weight0.size(0), weight1.size(0), weight2.size(0)}, -1);
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    DDPM_CHECK(!at::GradMode::is_enabled(), "joint_linear has no second derivative");
    const variable_list saved = context->get_saved_variables();
    const at::Tensor& x = saved[0];
    const at::Tensor dy = at::cat({gradients[0], gradients[1], gradients[2]}, -1);
    const at::Tensor rows = dy.reshape({-1, dy.size(-1)});
    const std::array sizes{saved[1].size(0), saved[2].size(0), saved[3].size(0)};
    const auto dweight = rows.t().mm(x.reshape({-1, x.size(-1)})).split_with_sizes(sizes);
    const auto dbias = column_sums(rows).split_with_sizes(sizes);
    return {dy.matmul(at::cat({saved[1], saved[2], saved[3]})),
            dweight[0],
            dbias[0],
            dweight[1],
            dbias[1],
            dweight[2],
            dbias[2]};
  }
};

}  // namespace

std::array<at::Tensor, 3> joint_linear(const at::Tensor& x, const std::array<LinearWeights, 3>& layers) {
  const auto& [q, k, v] = layers;
  const variable_list y = JointLinear::apply(x, q.weight, q.bias, k.weight, k.bias, v.weight, v.bias);
  return {y[0], y[1], y[2]};
}

}  // namespace ddpm::nn
