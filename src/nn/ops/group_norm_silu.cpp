#include "nn/ops/group_norm_silu.h"

#include "nn/ops/cpu/group_norm.h"
#include "nn/ops/group_norm_operator.h"
#include "nn/ops/meta.h"

namespace ddpm::nn {
namespace {

at::Tensor over_pixels(const at::Tensor& per_channel) { return per_channel.unsqueeze(-1).unsqueeze(-1); }

// Mean and variance in two passes, so that bands of rows agree on both without cancellation.
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
  if (partition.bands() > 1) return partitioned_group_norm(x, weight, bias, options, partition);
  if (x.scalar_type() == at::kFloat) return group_norm(x, weight, bias, options);
  // ATen keeps the statistics in the dtype of weight and bias.
  return group_norm(x, weight.to(at::kFloat), bias.to(at::kFloat), options).to(x.scalar_type());
}

/// On the CPU, and on the meta device, which counts what the CPU would keep.
bool cpu_takes(const at::Tensor& x, const GroupNormOptions& options) {
  const bool activation = options.activation == Activation::silu || options.activation == Activation::none;
  return cpu::has_group_norm(x.scalar_type()) && activation && x.is_contiguous(at::MemoryFormat::ChannelsLast);
}

/// On CUDA, where ATen's group normalisation would copy to NCHW and back, all layouts and activations are fused as far
/// as they can be.
at::Tensor fused_on_cuda(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                         const GroupNormOptions& options, const Modulation& modulation) {
  GroupNormOptions fused = options;
  if (options.activation != Activation::silu) fused.activation = Activation::none;
  const at::Tensor images = x.contiguous(at::MemoryFormat::ChannelsLast);
  const at::Tensor y = fused_group_norm(images, weight, bias, fused, modulation).contiguous(x.suggest_memory_format());
  return fused.activation == options.activation ? y : activate(y, options.activation);
}

}  // namespace

at::Tensor group_norm_silu(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                           const GroupNormOptions& options, const Modulation& modulation, const Partition& partition) {
  if (partition.bands() == 1 && x.numel() > 0) {
    if (x.is_cuda()) return fused_on_cuda(x, weight, bias, options, modulation);
    if (cpu_takes(x, options)) return fused_group_norm(x, weight, bias, options, modulation);
  }
  const at::Tensor shifted = modulation.shift_before.defined() ? x + over_pixels(modulation.shift_before) : x;
  at::Tensor y = normalise(shifted, weight, bias, options, partition);
  if (modulation.scale.defined()) {
    y = y * (1 + over_pixels(modulation.scale)) + over_pixels(modulation.shift_after);
  }
  return activate(y, options.activation);
}

}  // namespace ddpm::nn
