#include "nn/ops/cpu/group_norm.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <torch/library.h>

#include "nn/ops/cpu/dispatch.h"
#include "nn/ops/cpu/group_norm_passes.h"

namespace ddpm::nn::cpu {
namespace {

Modulation modulation_of(const OptionalTensor& shift_before, const OptionalTensor& scale,
                         const OptionalTensor& shift_after) {
  return {.shift_before = shift_before.value_or(at::Tensor()),
          .scale = scale.value_or(at::Tensor()),
          .shift_after = shift_after.value_or(at::Tensor())};
}

at::Tensor cast(const at::Tensor& gradient, const at::Tensor& of) {
  return of.defined() ? gradient.to(of.scalar_type()) : at::Tensor();
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> forward(
    const at::Tensor& addend, const OptionalTensor& residual, const at::Tensor& weight, const at::Tensor& bias,
    const OptionalTensor& shift_before, const OptionalTensor& scale, const OptionalTensor& shift_after, int64_t groups,
    double eps, bool silu) {
  return tiled_group_norm(addend, residual, weight, bias, shift_before, scale, shift_after, groups, eps, silu,
                          /*in_any_order=*/false, {});
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor> backward(
    const at::Tensor& dy, const OptionalTensor& residual_gradient, const at::Tensor& x, const at::Tensor& weight,
    const at::Tensor& bias, const OptionalTensor& shift_before, const OptionalTensor& scale,
    const OptionalTensor& shift_after, const at::Tensor& mean, const at::Tensor& rstd, bool silu) {
  return tiled_group_norm_backward(dy, residual_gradient, x, weight, bias, shift_before, scale, shift_after, mean, rstd,
                                   silu, {});
}

TORCH_LIBRARY_IMPL(ddpm, CPU, m) {
  m.impl("group_norm_silu", forward);
  m.impl("group_norm_silu_backward", backward);
}

}  // namespace

bool has_group_norm(at::ScalarType dtype) { return has_kernels(dtype); }

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> tiled_group_norm(
    const at::Tensor& addend, const OptionalTensor& residual, const at::Tensor& weight, const at::Tensor& bias,
    const OptionalTensor& shift_before, const OptionalTensor& scale, const OptionalTensor& shift_after, int64_t groups,
    double eps, bool silu, bool in_any_order, const GatherNumbers& tiles) {
  at::Tensor y = at::empty_like(addend);
  at::Tensor sum = residual ? at::empty_like(addend) : at::Tensor();
  const at::Tensor& x = residual ? sum : addend;
  at::Tensor mean = at::empty({x.size(0), groups}, x.options().dtype(at::kFloat));
  at::Tensor rstd = at::empty_like(mean);
  const Affine affine(weight, bias, modulation_of(shift_before, scale, shift_after), x.size(0));
  norm_forward({x, affine, {mean, rstd}, silu}, {addend, residual.value_or(at::Tensor())}, eps, in_any_order, y, tiles);
  return {std::move(y), std::move(sum), std::move(mean), std::move(rstd)};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor> tiled_group_norm_backward(
    const at::Tensor& dy, const OptionalTensor& residual_gradient, const at::Tensor& x, const at::Tensor& weight,
    const at::Tensor& bias, const OptionalTensor& shift_before, const OptionalTensor& scale,
    const OptionalTensor& shift_after, const at::Tensor& mean, const at::Tensor& rstd, bool silu,
    const GatherNumbers& tiles) {
  const Modulation modulation = modulation_of(shift_before, scale, shift_after);
  const Affine affine(weight, bias, modulation, x.size(0));
  const NormGradients g =
      norm_backward({x, affine, {mean, rstd}, silu}, dy, residual_gradient.value_or(at::Tensor()), tiles);
  return {g.x,
          cast(g.weight, weight),
          cast(g.bias, bias),
          cast(g.shift_before, modulation.shift_before),
          cast(g.scale, modulation.scale),
          cast(g.shift_after, modulation.shift_after)};
}

}  // namespace ddpm::nn::cpu
