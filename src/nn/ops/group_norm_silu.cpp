#include "nn/ops/group_norm_silu.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>
#include <ATen/ops/group_norm.h>
#include <ATen/ops/rsqrt.h>
#include <ATen/ops/stack.h>
#include <c10/util/StringUtil.h>

#include "base/check.h"
#include "nn/ops/as_on_cuda.h"
#include "nn/ops/channel_bias.h"
#include "nn/ops/cpu/group_norm.h"
#include "nn/ops/group_norm_operator.h"
#include "nn/ops/meta.h"

namespace ddpm::nn {
namespace {

at::Tensor over_pixels(const at::Tensor& per_channel) { return per_channel.unsqueeze(-1).unsqueeze(-1); }

// Mean and variance in two passes, so that tiles agree on both without cancellation.
at::Tensor partitioned_group_norm(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                                  const GroupNormOptions& options, const Partition& partition) {
  const int64_t n = x.size(0);
  const int64_t channels = x.size(1);
  const at::Tensor grouped = x.to(at::kFloat).reshape({n, options.groups, -1});
  const at::Tensor elements = at::full({n, options.groups}, static_cast<double>(grouped.size(2)), grouped.options());
  const at::Tensor totals = partition.sum(at::stack({grouped.sum(2), elements}));
  const at::Tensor centred = grouped - (totals[0] / totals[1]).unsqueeze(2);
  const at::Tensor variance = partition.sum(centred.square().sum(2)) / totals[1];
  const at::Tensor normalised = centred * at::rsqrt(variance + options.eps).unsqueeze(2);
  const at::Tensor scaled = normalised.view({n, channels, x.size(2), x.size(3)}) * over_pixels(weight.to(at::kFloat)) +
                            over_pixels(bias.to(at::kFloat));
  return scaled.to(x.scalar_type()).contiguous(x.suggest_memory_format());
}

at::Tensor group_norm(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                      const GroupNormOptions& options) {
  if (!x.is_meta()) return at::group_norm(x, options.groups, weight, bias, options.eps, false);
  const at::Tensor mean = at::empty({x.size(0), options.groups}, x.options().dtype(at::kFloat));
  return run_on_meta({.inputs = {x, weight, bias},
                      .result_sizes = x.sizes().vec(),
                      .result_options = x.options().memory_format(x.suggest_memory_format()),
                      .saved = {x, weight, mean, at::empty_like(mean)}});
}

at::Tensor normalise(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                     const GroupNormOptions& options, const Partition& partition) {
  if (partition.tiles() > 1) return partitioned_group_norm(x, weight, bias, options, partition);
  if (x.scalar_type() == at::kFloat) return group_norm(x, weight, bias, options);
  // ATen keeps the statistics in the dtype of weight and bias.
  return group_norm(x, weight.to(at::kFloat), bias.to(at::kFloat), options).to(x.scalar_type());
}

/// Serves the CPU, and the meta device, which counts what the CPU would keep.
bool cpu_takes(const at::Tensor& x) {
  return cpu::has_group_norm(x.scalar_type()) && x.is_contiguous(at::MemoryFormat::ChannelsLast);
}

void check_alike(const Branches& branches) {
  if (!branches.residual.defined()) return;
  const at::Tensor& addend = branches.addend;
  const at::Tensor& residual = branches.residual;
  DDPM_CHECK(residual.sizes() == addend.sizes() && residual.scalar_type() == addend.scalar_type(),
             "a residual of {} {} for {} {}", c10::str(residual.sizes()), toString(residual.scalar_type()),
             c10::str(addend.sizes()), toString(addend.scalar_type()));
}

Branches in_channels_last(const Branches& branches) {
  const auto ordered = [](const at::Tensor& t) {
    return t.defined() ? t.contiguous(at::MemoryFormat::ChannelsLast) : t;
  };
  return {.addend = ordered(branches.addend), .residual = ordered(branches.residual)};
}

/// The kernels know SiLU. Other activations follow the norm and its modulation.
NormalisedSum fused(const Branches& branches, const at::Tensor& weight, const at::Tensor& bias,
                    const GroupNormOptions& options, const Modulation& modulation, const Partition& partition,
                    bool with_x) {
  GroupNormOptions known = options;
  if (options.activation != Activation::silu) known.activation = Activation::none;
  NormalisedSum result =
      fused_group_norm(in_channels_last(branches), weight, bias, known, modulation, partition, with_x);
  if (known.activation != options.activation) result.y = activate(result.y, options.activation);
  return result;
}

/// On CUDA, where ATen's group normalisation would copy to NCHW and back, all layouts are fused.
NormalisedSum fused_on_cuda(const Branches& branches, const at::Tensor& weight, const at::Tensor& bias,
                            const GroupNormOptions& options, const Modulation& modulation, bool with_x) {
  const at::MemoryFormat order = branches.addend.suggest_memory_format();
  NormalisedSum result = fused(branches, weight, bias, options, modulation, whole_image(), with_x);
  result.y = result.y.contiguous(order);
  if (with_x) result.x = result.x.contiguous(order);
  return result;
}

NormalisedSum normalise_branches(const Branches& branches, const at::Tensor& weight, const at::Tensor& bias,
                                 const GroupNormOptions& options, const Modulation& modulation,
                                 const Partition& partition, bool with_x) {
  const at::Tensor& addend = branches.addend;
  if (addend.numel() > 0) {
    const bool on_gpu = is_on_gpu(addend) || partition.stands_for_gpu();
    if (on_gpu && partition.tiles() == 1) {
      return fused_on_cuda(branches, weight, bias, options, modulation, with_x);
    }
    if (!on_gpu && cpu_takes(addend)) return fused(branches, weight, bias, options, modulation, partition, with_x);
  }
  const at::Tensor x = joined(branches);
  const at::Tensor shifted = modulation.shift_before.defined() ? x + over_pixels(modulation.shift_before) : x;
  at::Tensor y = normalise(shifted, weight, bias, options, partition);
  if (modulation.scale.defined()) {
    y = y * (1 + over_pixels(modulation.scale)) + over_pixels(modulation.shift_after);
  }
  return {.y = activate(y, options.activation), .x = x};
}

}  // namespace

at::Tensor joined(const Branches& branches) {
  if (branches.bias.defined()) return sum_with_bias(branches.addend, branches.residual, branches.bias);
  return branches.residual.defined() ? branches.addend + branches.residual : branches.addend;
}

at::Tensor group_norm_silu(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                           const GroupNormOptions& options, const Modulation& modulation, const Partition& partition) {
  return normalise_branches({.addend = x}, weight, bias, options, modulation, partition, /*with_x=*/false).y;
}

NormalisedSum residual_group_norm_silu(const Branches& branches, const at::Tensor& weight, const at::Tensor& bias,
                                       const GroupNormOptions& options, const Modulation& modulation,
                                       const Partition& partition) {
  check_alike(branches);
  const Branches added = branches.bias.defined() ? Branches{.addend = joined(branches)} : branches;
  return normalise_branches(added, weight, bias, options, modulation, partition, /*with_x=*/true);
}

}  // namespace ddpm::nn
