#include "nn/ops/convolution.h"

namespace ddpm::nn {

at::Tensor convolution(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                       const ConvolutionOptions& options, const Partition& partition) {
  if (x.is_meta()) {  // ATen has no meta kernel for it outside Python
    return at::empty({x.size(0), weight.size(0), x.size(2) / options.stride, x.size(3) / options.stride},
                     x.options().memory_format(at::MemoryFormat::ChannelsLast));
  }
  // The last window of a band ends this many rows below it: strides tile H, so the kernel overhangs by what is left.
  const int64_t below = options.kernel - options.stride - options.before;
  const Halo halo = partition.halo(x, options.before, below);
  const int64_t rows_before = halo.attached ? 0 : options.before;
  const int64_t rows_after = halo.attached ? 0 : options.after;
  if (rows_before == rows_after && options.before == options.after) {
    return at::conv2d(halo.x, weight, bias, options.stride, {rows_before, options.before});
  }
  const at::Tensor padded = at::constant_pad_nd(halo.x, {options.before, options.after, rows_before, rows_after});
  return at::conv2d(padded, weight, bias, options.stride);
}

}  // namespace ddpm::nn
