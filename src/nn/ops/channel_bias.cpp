#include "nn/ops/channel_bias.h"

#include <vector>

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "base/check.h"
#include "nn/ops/column_sums.h"
#include "nn/ops/volume.h"

namespace ddpm::nn {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// Writes a + bias, or a + b + bias, to `sum`, which may be a.
using AddBias = void(const at::Tensor& sum, const at::Tensor& a, const std::optional<at::Tensor>& b,
                     const at::Tensor& bias);

void add_by_aten(const at::Tensor& sum, const at::Tensor& a, const std::optional<at::Tensor>& b,
                 const at::Tensor& bias) {
  std::vector<int64_t> per_channel(static_cast<std::size_t>(a.dim()) - 1, 1);
  per_channel.front() = -1;
  const at::Tensor added = a + bias.view(per_channel);
  sum.copy_(b ? added + *b : added);
}

TORCH_LIBRARY_FRAGMENT(ddpm, m) { m.def("add_bias_(Tensor(a!) sum, Tensor a, Tensor? b, Tensor bias) -> ()"); }

TORCH_LIBRARY_IMPL(ddpm, CPU, m) { m.impl("add_bias_", add_by_aten); }

void add_bias_(const at::Tensor& sum, const at::Tensor& a, const std::optional<at::Tensor>& b, const at::Tensor& bias) {
  // A convolution of images of one channel leaves them in another order.
  if (!sum.is_contiguous(channels_last_order(sum))) return add_by_aten(sum, a, b, bias);
  static const auto kOperator = c10::Dispatcher::singleton().findSchemaOrThrow("ddpm::add_bias_", "").typed<AddBias>();
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  kOperator.call(sum, a, b, bias);
}

at::Tensor bias_gradient(const at::Tensor& dy) {
  DDPM_CHECK(!at::GradMode::is_enabled(), "a bias of channels has no second derivative");
  return column_sums(dy.movedim(1, -1).reshape({-1, dy.size(1)}));
}

struct AddChannelBias : torch::autograd::Function<AddChannelBias> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& y, const at::Tensor& bias) {
    context->mark_dirty({y});
    add_bias_(y, y, std::nullopt, bias);
    return y;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const at::Tensor dy = gradients[0].contiguous(channels_last_order(gradients[0]));
    return {dy, context->needs_input_grad(1) ? bias_gradient(dy) : at::Tensor()};
  }
};

struct SumWithBias : torch::autograd::Function<SumWithBias> {
  static at::Tensor forward(AutogradContext* /*context*/, const at::Tensor& a, const at::Tensor& b,
                            const at::Tensor& bias) {
    at::Tensor sum = at::empty_like(a, at::MemoryFormat::ChannelsLast);
    add_bias_(sum, a.contiguous(channels_last_order(a)), b.contiguous(channels_last_order(b)), bias);
    return sum;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const at::Tensor dy = gradients[0].contiguous(channels_last_order(gradients[0]));
    return {dy, dy, context->needs_input_grad(2) ? bias_gradient(dy) : at::Tensor()};
  }
};

}  // namespace

at::Tensor add_channel_bias(const at::Tensor& y, const at::Tensor& bias) { return AddChannelBias::apply(y, bias); }

at::Tensor bias_or_zeros(const at::Tensor& bias, const at::Tensor& weight) {
  return bias.defined() ? bias : at::zeros({weight.size(0)}, weight.options().memory_format(std::nullopt));
}

at::Tensor sum_with_bias(const at::Tensor& a, const at::Tensor& b, const at::Tensor& bias) {
  return SumWithBias::apply(a, b, bias);
}

}  // namespace ddpm::nn
