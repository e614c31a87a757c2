// Turns tensors into the arguments of nn/ops/cuda/repeated_pixels.h; tests run the same code on CPU tensors.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include "base/check.h"
#include "nn/ops/cuda/group_norm_tensors.h"
#include "nn/ops/cuda/repeated_pixels.h"

namespace ddpm::nn::cuda {

inline at::Tensor empty_images(const at::Tensor& like, int64_t height, int64_t width) {
  return at::empty({like.size(0), like.size(1), height, width},
                   like.options().memory_format(at::MemoryFormat::ChannelsLast));
}

/// `from` and `to`, either of which is the smaller one.
inline PixelRepetition pixel_repetition(const at::Tensor& from, const at::Tensor& to) {
  const at::Tensor& smaller = from.size(2) < to.size(2) ? from : to;
  DDPM_CHECK(from.is_contiguous(at::MemoryFormat::ChannelsLast), "images of other than channels-last layout");
  PixelRepetition r{.from = from.const_data_ptr(),
                    .to = to.mutable_data_ptr(),
                    .type = element_type(from),
                    .vector = 1,
                    .channels = static_cast<int32_t>(from.size(1)),
                    .width = static_cast<int32_t>(smaller.size(3)),
                    .count = smaller.numel()};
  const int64_t wide = 16 / bytes_of(r.type);
  if (from.size(1) % wide == 0 && aligned_for_vectors({r.from, r.to})) {
    r.vector = static_cast<int32_t>(wide);
    r.channels /= r.vector;
    r.count /= wide;
  }
  return r;
}

}  // namespace ddpm::nn::cuda
