// Included by the one source file per instruction set, each compiled with flags of its own (nn/CMakeLists.txt).
#pragma once

#include "nn/ops/cpu/attention_backward_kernel.h"
#include "nn/ops/cpu/attention_forward_kernel.h"
#include "nn/ops/cpu/group_norm_kernels.h"
#include "nn/ops/cpu/winograd_kernel.h"
#include "nn/ops/cpu/winograd_weight_kernel.h"

namespace ddpm::nn::cpu {
namespace {

template <int kLanes, typename T>
constexpr GroupNormKernels<T> group_norm_table() {
  return {.add = add_values<kLanes, T>,
          .moments = moments<kLanes, T>,
          .moments_in_any_order = moments_in_any_order<kLanes, T>,
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

// Without fused products there are none: four lanes and 16 registers leave nothing of what fewer products gain.
template <int kLanes, typename T>
constexpr WinogradKernels<T> winograd_table() {
  if constexpr (!kRoundsOnce) return {};
  return {.run = winograd<kLanes, T>,
          .scratch = winograd_scratch<kLanes>,
          .image_points = winograd_image_points<kLanes, T>,
          .gradient_points = winograd_gradient_points<kLanes, T>};
}

template <int kLanes>
constexpr WinogradWeightKernels winograd_weight_table() {
  if constexpr (!kRoundsOnce) return {};
  return {.width = kWidth<kLanes>,
          .to_points = winograd_weight_points<kLanes>,
          .turned_to_points = winograd_turned_points<kLanes>,
          .gradient = winograd_weight_gradient<kLanes>,
          .add_products = winograd_add_products<kLanes>};
}

template <int kLanes>
constexpr Kernels kernel_table() {
  return {.group_norm_float = group_norm_table<kLanes, float>(),
          .group_norm_bfloat16 = group_norm_table<kLanes, BFloat16>(),
          .attention_float = attention_table<kLanes, float>(),
          .attention_bfloat16 = attention_table<kLanes, BFloat16>(),
          .winograd_float = winograd_table<kLanes, float>(),
          .winograd_bfloat16 = winograd_table<kLanes, BFloat16>(),
          .winograd_weights = winograd_weight_table<kLanes>()};
}

}  // namespace
}  // namespace ddpm::nn::cpu
