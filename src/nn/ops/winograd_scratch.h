// What Winograd's convolution (nn/ops/winograd.h) takes beside its tensors: what stays in a cache of the third level.
// Without LibTorch, for who counts memory.
#pragma once

#include <algorithm>
#include <cstdint>

namespace ddpm::nn {

/// Image and gradient at the points, at most, while their products are summed for a weight's gradient.
constexpr int64_t kWinogradBlockBytes = int64_t{4} << 20;

/// A weight's numbers at the points, or the sums for its gradient, at most.
constexpr int64_t kWinogradWeightBytes = int64_t{8} << 20;

/// The former for a weight of `elements`: 36 numbers of float32 for a kernel of 9.
constexpr int64_t winograd_weight_bytes(int64_t elements) { return std::min(16 * elements, kWinogradWeightBytes); }

}  // namespace ddpm::nn
