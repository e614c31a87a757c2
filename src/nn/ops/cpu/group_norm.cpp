#include "nn/ops/cpu/group_norm.h"

#include <optional>

#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/custom_function.h>

#include "base/check.h"
#include "nn/ops/cpu/dispatch.h"
#include "nn/ops/cpu/group_norm_passes.h"

namespace ddpm::nn::cpu {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using OptionalTensor = std::optional<at::Tensor>;

constexpr const char* kSilu = "silu";

OptionalTensor optional(const at::Tensor& t) { return t.defined() ? OptionalTensor(t) : std::nullopt; }

at::Tensor cast(const at::Tensor& gradient, const at::Tensor& of) {
  return of.defined() ? gradient.to(of.scalar_type()) : at::Tensor();
}

struct GroupNormFunction : torch::autograd::Function<GroupNormFunction> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& weight,
                            const at::Tensor& bias, const OptionalTensor& shift_before, const OptionalTensor& scale,
                            const OptionalTensor& shift_after, const GroupNormOptions& options) {
    const Modulation modulation{.shift_before = shift_before.value_or(at::Tensor()),
                                .scale = scale.value_or(at::Tensor()),
                                .shift_after = shift_after.value_or(at::Tensor())};
    const bool silu = options.activation == Activation::silu;
    variable_list saved = saved_by_group_norm(x, weight, bias, options, modulation);
    at::Tensor y = at::empty_like(x);
    const Affine affine(weight, bias, modulation, x.size(0));
    norm_forward({x, affine, {saved[kMean], saved[kRstd]}, silu}, options.eps, y);
    context->save_for_backward(std::move(saved));
    context->saved_data[kSilu] = silu;
    return y;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    DDPM_CHECK(!at::GradMode::is_enabled(), "group normalisation has no second derivative");
    const variable_list saved = context->get_saved_variables();
    const at::Tensor& x = saved[kX];
    const Modulation modulation{
        .shift_before = saved[kShiftBefore], .scale = saved[kScale], .shift_after = saved[kShiftAfter]};
    const Affine affine(saved[kWeight], saved[kBias], modulation, x.size(0));
    const bool silu = context->saved_data[kSilu].toBool();
    const at::Tensor dy = gradients[0].to(x.scalar_type()).contiguous(at::MemoryFormat::ChannelsLast);
    const NormGradients g = norm_backward({x, affine, {saved[kMean], saved[kRstd]}, silu}, dy);
    return {g.x,
            cast(g.weight, saved[kWeight]),
            cast(g.bias, saved[kBias]),
            cast(g.shift_before, modulation.shift_before),
            cast(g.scale, modulation.scale),
            cast(g.shift_after, modulation.shift_after),
            at::Tensor()};
  }

 private:
  // Places in what saved_by_group_norm() returns.
  enum Saved : uint8_t { kX, kWeight, kBias, kShiftBefore, kScale, kShiftAfter, kMean, kRstd };
};

}  // namespace

bool takes_group_norm(const at::Tensor& x, const GroupNormOptions& options) {
  const bool activation = options.activation == Activation::silu || options.activation == Activation::none;
  return has_kernels(x.scalar_type()) && activation && x.numel() > 0 && x.is_contiguous(at::MemoryFormat::ChannelsLast);
}

at::Tensor group_norm(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                      const GroupNormOptions& options, const Modulation& modulation) {
  return GroupNormFunction::apply(x, weight, bias, optional(modulation.shift_before), optional(modulation.scale),
                                  optional(modulation.shift_after), options);
}

std::vector<at::Tensor> saved_by_group_norm(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                                            const GroupNormOptions& options, const Modulation& modulation) {
  const at::Tensor mean = at::empty({x.size(0), options.groups}, x.options().dtype(at::kFloat));
  return {
      x, weight, bias, modulation.shift_before, modulation.scale, modulation.shift_after, mean, at::empty_like(mean)};
}

}  // namespace ddpm::nn::cpu
