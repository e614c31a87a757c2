// Chooses the kernels for a tensor's dtype.
#pragma once

#include <type_traits>

#include <ATen/core/Tensor.h>

#include "nn/ops/cpu/kernels.h"

namespace ddpm::nn::cpu {

inline bool has_kernels(at::ScalarType dtype) { return dtype == at::kFloat || dtype == at::kBFloat16; }

/// Calls body with a null pointer to the kernels' element type.
template <typename Body>
void for_dtype(const at::Tensor& x, Body body) {
  if (x.scalar_type() == at::kFloat) {
    body(static_cast<float*>(nullptr));
  } else {
    body(static_cast<BFloat16*>(nullptr));
  }
}

template <typename T>
const GroupNormKernels<T>& group_norm_kernels() {
  if constexpr (std::is_same_v<T, float>) {
    return kernels().group_norm_float;
  } else {
    return kernels().group_norm_bfloat16;
  }
}

template <typename T>
const AttentionKernels<T>& attention_kernels() {
  if constexpr (std::is_same_v<T, float>) {
    return kernels().attention_float;
  } else {
    return kernels().attention_bfloat16;
  }
}

template <typename T>
const WinogradKernels<T>& winograd_kernels() {
  if constexpr (std::is_same_v<T, float>) {
    return kernels().winograd_float;
  } else {
    return kernels().winograd_bfloat16;
  }
}

/// One cache line; a vector of them is scratch memory that keeps vectors aligned.
struct alignas(64) Line {
  float floats[16];
};

}  // namespace ddpm::nn::cpu
