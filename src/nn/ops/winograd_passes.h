// What the passes of Winograd's convolution (nn/ops/winograd.h) share. Internal to nn/ops.
#pragma once

#include <algorithm>
#include <cstdint>

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include "base/check.h"
#include "nn/ops/cpu/dispatch.h"
#include "nn/ops/winograd_scratch.h"

namespace ddpm::nn::winograd {

using cpu::WinogradShape;

inline const cpu::WinogradWeightKernels& weight_kernels() { return cpu::kernels().winograd_weights; }

/// Undefined numbers.
inline at::Tensor floats(int64_t count) { return at::empty({count}, at::kFloat); }

inline at::Tensor in_order(const at::Tensor& x) { return x.contiguous(at::MemoryFormat::ChannelsLast); }

/// The convolution of x, or of x with each pixel twice along each axis.
inline WinogradShape shape_of(const at::Tensor& x, int64_t out, bool repeated) {
  const int64_t scale = repeated ? 2 : 1;
  return {.height = scale * x.size(2), .width = scale * x.size(3), .in = x.size(1), .out = out, .repeated = repeated};
}

inline int64_t tiles_of(const WinogradShape& shape, int64_t images) {
  return images * ((shape.height + 3) / 4) * ((shape.width + 3) / 4);
}

/// Outputs whose weights, or sums for the weight's gradient, are held at the points at once: so many that they stay in
/// a cache of the third level, in whole vectors.
inline int64_t outputs_at_once(int64_t in) {
  const int64_t width = weight_kernels().width;
  const int64_t fit = kWinogradWeightBytes / (cpu::kWinogradPoints * in * static_cast<int64_t>(sizeof(float)));
  return std::max<int64_t>(fit / width, 1) * width;
}

/// Calls body with x in order, and with pointers to it and to y.
template <typename Body>
void with_pointers(const at::Tensor& x_any, int64_t in, const at::Tensor& y, Body body) {
  DDPM_CHECK(cpu::has_kernels(x_any.scalar_type()) && x_any.is_cpu(), "an image of {} on {}",
             c10::toString(x_any.scalar_type()), x_any.device().str());
  DDPM_CHECK(in == x_any.size(1), "{} channels, wanted {}", x_any.size(1), in);
  const at::Tensor x = in_order(x_any);
  cpu::for_dtype(x, [&]<typename T>(T* /*of*/) {
    body(static_cast<const T*>(x.const_data_ptr()), static_cast<T*>(y.mutable_data_ptr()));
  });
}

/// The gradient of a weight [O, C, 3, 3], in float32, from that of the result, which is in order, and x.
at::Tensor weight_gradient(const at::Tensor& dy, const at::Tensor& x);

}  // namespace ddpm::nn::winograd
