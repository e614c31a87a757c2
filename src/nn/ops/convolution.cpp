#include "nn/ops/convolution.h"

#include "nn/ops/float_products.h"
#include "nn/ops/meta.h"

namespace ddpm::nn {
namespace {

at::Tensor conv2d(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias, int64_t stride,
                  at::IntArrayRef padding) {
  if (wants_float_products(x)) return conv2d_in_float(x, weight, bias, stride, padding);
  if (!x.is_meta()) return at::conv2d(x, weight, bias, stride, padding);
  const auto size = [&](int64_t dim) {
    return (x.size(dim) + 2 * padding[static_cast<std::size_t>(dim - 2)] - weight.size(dim)) / stride + 1;
  };
  return run_on_meta({.inputs = {x, weight, bias},
                      .result_sizes = {x.size(0), weight.size(0), size(2), size(3)},
                      .result_options = x.options().memory_format(at::MemoryFormat::ChannelsLast),
                      .saved = {x, weight}});
}

}  // namespace

at::Tensor convolution(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                       const ConvolutionOptions& options, const Partition& partition) {
  // The last window of a band ends this many rows below it: strides tile H, so the kernel overhangs by what is left.
  const int64_t below = options.kernel - options.stride - options.before;
  const Halo halo = partition.halo(x, options.before, below);
  const int64_t rows_before = halo.attached ? 0 : options.before;
  const int64_t rows_after = halo.attached ? 0 : options.after;
  if (rows_before == rows_after && options.before == options.after) {
    return conv2d(halo.x, weight, bias, options.stride, {rows_before, options.before});
  }
  const at::Tensor padded = at::constant_pad_nd(halo.x, {options.before, options.after, rows_before, rows_after});
  return conv2d(padded, weight, bias, options.stride, {0, 0});
}

}  // namespace ddpm::nn
