#include "nn/ops/group_norm_operator.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "base/check.h"
#include "nn/ops/cpu/group_norm.h"
#include "nn/ops/remembered.h"

namespace ddpm::nn {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr const char* kSilu = "silu";
constexpr const char* kResidual = "residual";

const auto& forward_operator() {
  static const auto kFound =
      c10::Dispatcher::singleton().findSchemaOrThrow("ddpm::group_norm_silu", "").typed<NormForwardOperator>();
  return kFound;
}

const auto& backward_operator() {
  static const auto kFound = c10::Dispatcher::singleton()
                                 .findSchemaOrThrow("ddpm::group_norm_silu_backward", "")
                                 .typed<NormBackwardOperator>();
  return kFound;
}

GatherNumbers gather_numbers(const Partition& partition) {
  return [&partition](const at::Tensor& numbers) { return partition.gather_numbers(numbers); };
}

OptionalTensor optional(const at::Tensor& t) { return t.defined() ? OptionalTensor(t) : std::nullopt; }

/// What forward would gather of each group, and backward again: see nn/ops/cpu/group_norm_passes.h.
void tell_of_numbers(const Partition& tiles, const at::Tensor& mean) {
  const at::Tensor numbers = at::empty({mean.size(0), mean.size(1), 3}, mean.options().dtype(at::kDouble));
  (void)tiles.gather_numbers(numbers);
}

struct GroupNormFunction : torch::autograd::Function<GroupNormFunction> {
  /// y, and x for a residual connection
  static variable_list forward(AutogradContext* context, const at::Tensor& addend, const OptionalTensor& residual,
                               const at::Tensor& weight, const at::Tensor& bias, const OptionalTensor& shift_before,
                               const OptionalTensor& scale, const OptionalTensor& shift_after,
                               const GroupNormOptions& options, const Partition* tiles, bool with_x) {
    const bool silu = options.activation == Activation::silu;
    const auto [y, sum, mean, rstd] =
        (tiles != nullptr || options.in_any_order) && addend.is_cpu()
            ? cpu::tiled_group_norm(addend, residual, weight, bias, shift_before, scale, shift_after, options.groups,
                                    options.eps, silu, options.in_any_order,
                                    tiles != nullptr ? gather_numbers(*tiles) : GatherNumbers())
            : forward_operator().call(addend, residual, weight, bias, shift_before, scale, shift_after, options.groups,
                                      options.eps, silu);
    if (tiles != nullptr && addend.is_meta()) tell_of_numbers(*tiles, mean);
    remember(*context, tiles);
    const at::Tensor& x = residual ? sum : addend;
    const auto saved = [](const OptionalTensor& t) { return t.value_or(at::Tensor()); };
    context->save_for_backward({x, weight, bias, saved(shift_before), saved(scale), saved(shift_after), mean, rstd});
    context->saved_data[kSilu] = silu;
    context->saved_data[kResidual] = residual.has_value();
    context->set_materialize_grads(false);
    return with_x ? variable_list{y, x} : variable_list{y};
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    DDPM_CHECK(!at::GradMode::is_enabled(), "group normalisation has no second derivative");
    const at::Tensor& of_y = gradients[0];
    const at::Tensor of_x = gradients.size() > 1 ? gradients[1] : at::Tensor();
    const bool residual = context->saved_data[kResidual].toBool();
    const auto results = [&](const at::Tensor& dx, const variable_list& others) {
      variable_list all = {dx, residual ? dx : at::Tensor()};
      all.insert(all.end(), others.begin(), others.end());
      all.resize(kArguments);
      return all;
    };
    if (!of_y.defined()) return results(of_x, {});
    const variable_list saved = context->get_saved_variables();
    const at::Tensor& x = saved[kX];
    const auto like_x = [&](const at::Tensor& gradient) {
      return gradient.to(x.scalar_type()).contiguous(at::MemoryFormat::ChannelsLast);
    };
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    const auto compute = [&](const auto& backward, const auto&... tiles) {
      return backward(like_x(of_y), of_x.defined() ? OptionalTensor(like_x(of_x)) : std::nullopt, x, saved[kWeight],
                      saved[kBias], optional(saved[kShiftBefore]), optional(saved[kScale]),
                      optional(saved[kShiftAfter]), saved[kMean], saved[kRstd], context->saved_data[kSilu].toBool(),
                      tiles...);
    };
    const auto whole = [](const auto&... arguments) { return backward_operator().call(arguments...); };
    const auto* tiles = remembered<const Partition*>(*context);
    const auto [dx, weight, bias, shift_before, scale, shift_after] =
        tiles == nullptr ? compute(whole) : compute(cpu::tiled_group_norm_backward, gather_numbers(*tiles));
    return results(dx, {weight, bias, shift_before, scale, shift_after});
  }

 private:
  static constexpr std::size_t kArguments = 10;  // how many forward() takes, after the context
  // Places among the saved tensors.
  static constexpr std::size_t kX = 0;
  static constexpr std::size_t kWeight = 1;
  static constexpr std::size_t kBias = 2;
  static constexpr std::size_t kShiftBefore = 3;
  static constexpr std::size_t kScale = 4;
  static constexpr std::size_t kShiftAfter = 5;
  static constexpr std::size_t kMean = 6;
  static constexpr std::size_t kRstd = 7;
};

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> forward_on_meta(
    const at::Tensor& addend, const OptionalTensor& residual, const at::Tensor& /*weight*/, const at::Tensor& /*bias*/,
    const OptionalTensor& /*shift_before*/, const OptionalTensor& /*scale*/, const OptionalTensor& /*shift_after*/,
    int64_t groups, double /*eps*/, bool /*silu*/) {
  const at::Tensor mean = at::empty({addend.size(0), groups}, addend.options().dtype(at::kFloat));
  const at::Tensor sum = residual ? at::empty_like(addend) : at::Tensor();
  return {at::empty_like(addend), sum, mean, at::empty_like(mean)};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor> backward_on_meta(
    const at::Tensor& /*dy*/, const OptionalTensor& /*residual_gradient*/, const at::Tensor& x,
    const at::Tensor& weight, const at::Tensor& bias, const OptionalTensor& shift_before, const OptionalTensor& scale,
    const OptionalTensor& shift_after, const at::Tensor& /*mean*/, const at::Tensor& /*rstd*/, bool /*silu*/) {
  const auto like = [](const OptionalTensor& t) { return t ? at::empty_like(*t) : at::Tensor(); };
  return {at::empty_like(x), at::empty_like(weight), at::empty_like(bias), like(shift_before),
          like(scale),       like(shift_after)};
}

TORCH_LIBRARY_FRAGMENT(ddpm, m) {
  m.def(
      "group_norm_silu(Tensor addend, Tensor? residual, Tensor weight, Tensor bias, Tensor? shift_before, "
      "Tensor? scale, Tensor? shift_after, int groups, float eps, bool silu) -> (Tensor y, Tensor sum, Tensor mean, "
      "Tensor rstd)");
  m.def(
      "group_norm_silu_backward(Tensor dy, Tensor? residual_gradient, Tensor x, Tensor weight, Tensor bias, "
      "Tensor? shift_before, Tensor? scale, Tensor? shift_after, Tensor mean, Tensor rstd, bool silu) -> (Tensor dx, "
      "Tensor dweight, Tensor dbias, Tensor dshift_before, Tensor dscale, Tensor dshift_after)");
}

TORCH_LIBRARY_IMPL(ddpm, Meta, m) {
  m.impl("group_norm_silu", forward_on_meta);
  m.impl("group_norm_silu_backward", backward_on_meta);
}

}  // namespace

NormalisedSum fused_group_norm(const Branches& branches, const at::Tensor& weight, const at::Tensor& bias,
                               const GroupNormOptions& options, const Modulation& modulation,
                               const Partition& partition, bool with_x) {
  const variable_list results = GroupNormFunction::apply(
      branches.addend, optional(branches.residual), weight, bias, optional(modulation.shift_before),
      optional(modulation.scale), optional(modulation.shift_after), options,
      partition.tiles() > 1 ? &partition : static_cast<const Partition*>(nullptr), with_x);
  return {.y = results[0], .x = with_x ? results[1] : at::Tensor()};
}

}  // namespace ddpm::nn
