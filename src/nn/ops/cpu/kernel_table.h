// Included by the one source file per instruction set, each compiled with flags of its own (nn/CMakeLists.txt).
#pragma once

#include "nn/ops/cpu/attention_backward_kernel.h"
#include "nn/ops/cpu/attention_forward_kernel.h"
#include "nn/ops/cpu/group_norm_kernels.h"
#include "nn/ops/cpu/winograd_kernel.h"

namespace ddpm::nn::cpu {
namespace {

template <int kLanes, typename T>
constexpr GroupNormKernels<T> group_norm_table() {
  return {.add = add_values<kLanes, T>,
          .moments = moments<kLanes, T>,
          .normalise = normalise<kLanes, T>,
          .gradient_sums = gradient_sums<kLanes, T>,
          .input_gradient = input_gradient<kLanes, T>};
}

template <int kLanes, typename T>
constexpr AttentionKernels<T> attention_table() {
  return {.forward = attention_forward<kLanes, T>,
          .backward = attention_backward<kLanes, T>,
          .forward_scratch = forward_scratch<kLanes, T>,
          .backward_scratch = backward_scratch<kLanes, T>};
}

template <int kLanes, typename T>
constexpr WinogradKernels<T> winograd_table() {
  return {.run = winograd<kLanes, T>,
          .block = winograd_block<kLanes>,
          .scratch = winograd_scratch<kLanes>,
          .width = kWidth<kLanes>};
}

template <int kLanes>
constexpr Kernels kernel_table() {
  return {.group_norm_float = group_norm_table<kLanes, float>(),
          .group_norm_bfloat16 = group_norm_table<kLanes, BFloat16>(),
          .attention_float = attention_table<kLanes, float>(),
          .attention_bfloat16 = attention_table<kLanes, BFloat16>(),
          .winograd_float = winograd_table<kLanes, float>(),
          .winograd_bfloat16 = winograd_table<kLanes, BFloat16>()};
}

}  // namespace
}  // namespace ddpm::nn::cpu
