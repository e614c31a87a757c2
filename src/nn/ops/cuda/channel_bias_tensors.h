// Turns tensors into the arguments of nn/ops/cuda/channel_bias.h; tests run the same code on CPU tensors.
#pragma once

#include <optional>

#include <ATen/core/Tensor.h>

#include "base/check.h"
#include "nn/ops/cuda/channel_bias.h"
#include "nn/ops/cuda/group_norm_tensors.h"
#include "nn/ops/volume.h"

namespace ddpm::nn::cuda {

/// Throws base::InternalError for layouts and dtypes that the kernel does not take.
inline BiasAddition bias_addition(const at::Tensor& sum, const at::Tensor& a, const std::optional<at::Tensor>& b,
                                  const at::Tensor& bias) {
  const auto expect = [&](const at::Tensor& t, const char* name) {
    DDPM_CHECK(
        t.is_contiguous(channels_last_order(t)) && t.sizes() == a.sizes() && t.scalar_type() == bias.scalar_type(),
        "{} unlike images of {}", name, toString(bias.scalar_type()));
  };
  expect(sum, "a sum");
  expect(a, "an addend");
  if (b) expect(*b, "a second addend");
  DDPM_CHECK(bias.is_contiguous() && bias.numel() == a.size(1), "a bias of {} for {} channels", bias.numel(),
             a.size(1));
  BiasAddition addition{.sum = sum.mutable_data_ptr(),
                        .a = a.const_data_ptr(),
                        .b = b ? b->const_data_ptr() : nullptr,
                        .bias = bias.const_data_ptr(),
                        .type = element_type(a),
                        .vector = 1,
                        .channels = static_cast<int32_t>(a.size(1)),
                        .count = a.numel()};
  const int64_t wide = 16 / bytes_of(addition.type);
  if (a.size(1) % wide == 0 && aligned_for_vectors({addition.sum, addition.a, addition.b, addition.bias})) {
    addition.vector = static_cast<int32_t>(wide);
    addition.channels /= addition.vector;
    addition.count /= wide;
  }
  return addition;
}

}  // namespace ddpm::nn::cuda
