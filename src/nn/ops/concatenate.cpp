#include "nn/ops/concatenate.h"

#include <ATen/ops/cat.h>
#include <torch/csrc/autograd/custom_function.h>

namespace ddpm::nn {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr const char* kChannels = "channels";

struct Concatenate : torch::autograd::Function<Concatenate> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& skip) {
    context->saved_data[kChannels] = x.size(1);
    return at::cat({x, skip}, 1);
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const at::Tensor& dy = gradients[0];
    const int64_t channels = context->saved_data[kChannels].toInt();
    return {dy.narrow(1, 0, channels).contiguous(at::MemoryFormat::ChannelsLast),
            dy.narrow(1, channels, dy.size(1) - channels)};
  }
};

}  // namespace

at::Tensor concatenate(const at::Tensor& x, const at::Tensor& skip) { return Concatenate::apply(x, skip); }

}  // namespace ddpm::nn
