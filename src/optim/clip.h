// The norm of the whole model's gradient, summed in an order that no cut into ranks or threads changes.
#pragma once

#include <cstdint>
#include <span>

#include <c10/macros/Macros.h>

namespace ddpm::optim {

/// Elements whose squares make one block sum. Cut gradient buffers at multiples of it, counted from the buffer's start,
/// and the block sums are those of the whole buffer.
inline constexpr int64_t kNormBlock = 4096;

/// Number of blocks of `elements` elements; the last may be short.
constexpr int64_t norm_blocks(int64_t elements) { return (elements + kNormBlock - 1) / kNormBlock; }

/// sums[b] = Σ x² over block b, in float64 and fixed order; sums.size() is norm_blocks(values.size()). Squares of
/// float32 are exact in float64 and cannot overflow it: a sum is finite exactly when all its elements are.
void block_sums_of_squares(std::span<const float> values, std::span<double> sums);

/// ((0+1)+(2+3))+…: neighbours are added level by level, an odd last one moves up as it is. The sum of an aligned
/// power-of-two run of values is a node of the tree of all.
double tree_sum(std::span<const double> values);

/// tree_sum of the block sums.
double sum_of_squares(std::span<const float> values);

/// What gradients of L2 norm `norm` are multiplied by, as torch.nn.utils.clip_grad_norm_ does:
/// min(1, max_norm / (norm + 1e-6)). 1 for max_norm = 0: clipping is off. One function for the host and for kernels.
C10_HOST_DEVICE inline double clip_coefficient(double norm, double max_norm) {
  const double limited = max_norm / (norm + 1e-6);
  return max_norm == 0.0 || limited >= 1.0 ? 1.0 : limited;
}

}  // namespace ddpm::optim
