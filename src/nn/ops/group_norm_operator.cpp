#include "nn/ops/group_norm_operator.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "base/check.h"

namespace ddpm::nn {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr const char* kSilu = "silu";

const auto& forward_operator() {
  static const auto found =
      c10::Dispatcher::singleton().findSchemaOrThrow("ddpm::group_norm_silu", "").typed<NormForwardOperator>();
  return found;
}

const auto& backward_operator() {
  static const auto found = c10::Dispatcher::singleton()
                                .findSchemaOrThrow("ddpm::group_norm_silu_backward", "")
                                .typed<NormBackwardOperator>();
  return found;
}

OptionalTensor optional(const at::Tensor& t) { return t.defined() ? OptionalTensor(t) : std::nullopt; }

struct GroupNormFunction : torch::autograd::Function<GroupNormFunction> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& weight,
                            const at::Tensor& bias, const OptionalTensor& shift_before, const OptionalTensor& scale,
                            const OptionalTensor& shift_after, const GroupNormOptions& options) {
    const bool silu = options.activation == Activation::silu;
    const auto [y, mean, rstd] =
        forward_operator().call(x, weight, bias, shift_before, scale, shift_after, options.groups, options.eps, silu);
    const auto saved = [](const OptionalTensor& t) { return t.value_or(at::Tensor()); };
    context->save_for_backward({x, weight, bias, saved(shift_before), saved(scale), saved(shift_after), mean, rstd});
    context->saved_data[kSilu] = silu;
    return y;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    DDPM_CHECK(!at::GradMode::is_enabled(), "group normalisation has no second derivative");
    const variable_list saved = context->get_saved_variables();
    const at::Tensor& x = saved[kX];
    const at::Tensor dy = gradients[0].to(x.scalar_type()).contiguous(at::MemoryFormat::ChannelsLast);
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    const auto [dx, weight, bias, shift_before, scale, shift_after] = backward_operator().call(
        dy, x, saved[kWeight], saved[kBias], optional(saved[kShiftBefore]), optional(saved[kScale]),
        optional(saved[kShiftAfter]), saved[kMean], saved[kRstd], context->saved_data[kSilu].toBool());
    return {dx, weight, bias, shift_before, scale, shift_after, at::Tensor()};
  }

 private:
  // Places among the saved tensors.
  enum Saved : uint8_t { kX, kWeight, kBias, kShiftBefore, kScale, kShiftAfter, kMean, kRstd };
};

std::tuple<at::Tensor, at::Tensor, at::Tensor> forward_on_meta(const at::Tensor& x, const at::Tensor& /*weight*/,
                                                               const at::Tensor& /*bias*/,
                                                               const OptionalTensor& /*shift_before*/,
                                                               const OptionalTensor& /*scale*/,
                                                               const OptionalTensor& /*shift_after*/, int64_t groups,
                                                               double /*eps*/, bool /*silu*/) {
  const at::Tensor mean = at::empty({x.size(0), groups}, x.options().dtype(at::kFloat));
  return {at::empty_like(x), mean, at::empty_like(mean)};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor> backward_on_meta(
    const at::Tensor& /*dy*/, const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
    const OptionalTensor& shift_before, const OptionalTensor& scale, const OptionalTensor& shift_after,
    const at::Tensor& /*mean*/, const at::Tensor& /*rstd*/, bool /*silu*/) {
  const auto like = [](const OptionalTensor& t) { return t ? at::empty_like(*t) : at::Tensor(); };
  return {at::empty_like(x), at::empty_like(weight), at::empty_like(bias), like(shift_before),
          like(scale),       like(shift_after)};
}

TORCH_LIBRARY_FRAGMENT(ddpm, m) {
  m.def(
      "group_norm_silu(Tensor x, Tensor weight, Tensor bias, Tensor? shift_before, Tensor? scale, Tensor? shift_after, "
      "int groups, float eps, bool silu) -> (Tensor y, Tensor mean, Tensor rstd)");
  m.def(
      "group_norm_silu_backward(Tensor dy, Tensor x, Tensor weight, Tensor bias, Tensor? shift_before, Tensor? scale, "
      "Tensor? shift_after, Tensor mean, Tensor rstd, bool silu) -> (Tensor dx, Tensor dweight, Tensor dbias, "
      "Tensor dshift_before, Tensor dscale, Tensor dshift_after)");
}

TORCH_LIBRARY_IMPL(ddpm, Meta, m) {
  m.impl("group_norm_silu", forward_on_meta);
  m.impl("group_norm_silu_backward", backward_on_meta);
}

}  // namespace

at::Tensor fused_group_norm(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                            const GroupNormOptions& options, const Modulation& modulation) {
  return GroupNormFunction::apply(x, weight, bias, optional(modulation.shift_before), optional(modulation.scale),
                                  optional(modulation.shift_after), options);
}

}  // namespace ddpm::nn
