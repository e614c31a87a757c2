#include "nn/ops/repeated_convolution.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/conv_transpose2d.h>
#include <ATen/ops/conv_transpose3d.h>
#include <ATen/ops/tensor.h>

#include "nn/ops/volume.h"

namespace ddpm::nn {
namespace {

/// Along an axis, tap k of a convolution adds to the taps of the transposed one where row k holds a 1.
at::Tensor taps_of_taps(const at::TensorOptions& options) {
  return at::tensor({0.0F, 0.0F, 1.0F, 1.0F, 0.0F, 1.0F, 1.0F, 0.0F, 1.0F, 1.0F, 0.0F, 0.0F}, options).view({3, 4});
}

}  // namespace

at::Tensor repeated_weight(const at::Tensor& weight) {
  at::Tensor sums = weight.to(at::kFloat).contiguous();
  const at::Tensor taps = taps_of_taps(sums.options());
  for (int64_t axis = 2; axis < weight.dim(); ++axis) {
    sums = sums.movedim(axis, -1).matmul(taps).movedim(-1, axis);
  }
  const auto order = weight.dim() == 4 ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::ChannelsLast3d;
  return sums.transpose(0, 1).to(weight.scalar_type()).contiguous(order);
}

at::Tensor repeated_convolution(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                                const Partition& partition) {
  const int64_t depth = partition.depth(x);
  if (depth == 0) return at::conv_transpose2d(x, weight, bias, /*stride=*/2, /*padding=*/1);
  return image_of_volume(at::conv_transpose3d(volume_of(x, depth), weight, bias, /*stride=*/2, /*padding=*/1));
}

}  // namespace ddpm::nn
