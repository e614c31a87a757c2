#include "nn/ops/convolution.h"

#include <array>
#include <span>
#include <utility>
#include <vector>

#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/conv3d.h>

#include "nn/ops/as_on_cuda.h"
#include "nn/ops/channel_bias.h"
#include "nn/ops/float_products.h"
#include "nn/ops/halo_convolution.h"
#include "nn/ops/meta.h"
#include "nn/ops/volume.h"
#include "nn/ops/volume_products.h"
#include "nn/ops/winograd.h"

namespace ddpm::nn {
namespace {

/// Whether a convolution in bfloat16 with a stride has a result of one column. LibTorch 2.11's (oneDNN's) on processors
/// with AMX gives undefined numbers from 4 to 10 rows on, as the channels are.
bool has_one_column_in_bfloat16(const at::Tensor& x, const at::Tensor& weight, int64_t stride,
                                at::IntArrayRef padding) {
  return x.is_cpu() && x.scalar_type() == at::kBFloat16 && stride > 1 &&
         x.size(-1) + 2 * padding.back() - weight.size(-1) < stride;
}

/// at::conv2d or at::conv3d, as x has axes, or what takes their place.
at::Tensor convolve(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias, int64_t stride,
                    at::IntArrayRef padding) {
  if (!computes_as_on_cuda(x) && takes_winograd(x, weight, stride, padding)) {
    return winograd_convolution(x, weight, bias);
  }
  const bool one_column = has_one_column_in_bfloat16(x, weight, stride, padding);
  if (x.is_cpu() && has_volume_products(weight) && !one_column) {
    return volume_convolution(x, weight, bias, stride, padding);
  }
  if (wants_float_products(x) || one_column) return convolution_in_float(x, weight, bias, stride, padding);
  if (bias.defined() && computes_as_on_cuda(x)) return add_channel_bias(convolve(x, weight, {}, stride, padding), bias);
  const bool flat = padding.size() == 2;
  if (!x.is_meta()) {
    return flat ? at::conv2d(x, weight, bias, stride, padding) : at::conv3d(x, weight, bias, stride, padding);
  }
  std::vector<int64_t> sizes = {x.size(0), weight.size(0)};
  for (std::size_t axis = 0; axis < padding.size(); ++axis) {
    const auto dim = static_cast<int64_t>(axis) + 2;
    sizes.push_back((x.size(dim) + 2 * padding[axis] - weight.size(dim)) / stride + 1);
  }
  std::vector<at::Tensor> inputs = {x, weight};
  if (bias.defined()) inputs.push_back(bias);
  const auto order = flat ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::ChannelsLast3d;
  return run_on_meta({.inputs = std::move(inputs),
                      .result_sizes = std::move(sizes),
                      .result_options = x.options().memory_format(order),
                      .saved = {x, weight}});
}

/// Zeros on both sides of an axis.
struct Zeros {
  int64_t before;
  int64_t after;
};

/// `zeros` of the axes, the last one first.
template <std::size_t kAxes>
at::Tensor convolve_padded(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias, int64_t stride,
                           const std::array<Zeros, kAxes>& zeros) {
  std::vector<int64_t> around;
  std::vector<int64_t> padding;
  bool even = true;
  for (const Zeros& axis : zeros) {
    around.insert(around.end(), {axis.before, axis.after});
    padding.insert(padding.begin(), axis.before);
    even = even && axis.before == axis.after;
  }
  if (even) return convolve(x, weight, bias, stride, padding);
  const std::vector<int64_t> none(kAxes, 0);
  return convolve(at::constant_pad_nd(x, around), weight, bias, stride, none);
}

/// What halo_convolution() computes.
bool looks_around(const ConvolutionOptions& options) {
  return options.kernel == 3 && options.stride == 1 && options.before == 1 && options.after == 1;
}

}  // namespace

at::Tensor convolution(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                       const ConvolutionOptions& options, const Partition& partition) {
  // The last window of a tile ends this many pixels behind it: strides cover it, so the kernel overhangs by what is
  // left.
  const int64_t after = options.kernel - options.stride - options.before;
  constexpr std::array kAxes = {ImageAxis::height, ImageAxis::width, ImageAxis::depth};
  const int64_t depth = partition.depth(x);
  if (partition.tiles() > 1 && looks_around(options)) {
    return depth == 0 ? halo_convolution(x, weight, bias, partition)
                      : image_of_volume(halo_convolution(volume_of(x, depth), weight, bias, partition));
  }
  const Halos wide = depth == 0 ? partition.halos(x, std::span(kAxes).first<2>(), options.before, after)
                                : partition.halos(volume_of(x, depth), kAxes, options.before, after);
  const auto zeros = [&](std::size_t axis) {
    return wide.attached[axis] ? Zeros{0, 0} : Zeros{options.before, options.after};
  };
  if (depth == 0) return convolve_padded<2>(wide.x, weight, bias, options.stride, {zeros(1), zeros(0)});
  return image_of_volume(convolve_padded<3>(wide.x, weight, bias, options.stride, {zeros(1), zeros(0), zeros(2)}));
}

}  // namespace ddpm::nn
