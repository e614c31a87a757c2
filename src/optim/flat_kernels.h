// The loops over flat buffers, compiled for several instruction sets and chosen at run time. Internal to optim.
//
// Each uses only operations that IEEE 754 rounds in one way, unfused (see CMakeLists.txt): neither the instruction set
// nor an element's place in the loop changes its bits.
#pragma once

#include <cstddef>

namespace ddpm::optim {

struct AdamWConfig;
struct AdamWStep;

/// The float32 constants of one AdamW update.
struct AdamWScalars {
  float gradient_scale;
  float keep;  ///< 1 - lr · weight_decay
  float one_minus_beta1;
  float beta2;
  float one_minus_beta2;
  float step_size;        ///< lr / (1 - β1^t)
  float root_correction;  ///< √(1 - β2^t)
  float eps;
};

/// The constants of an update, gradient scale included.
AdamWScalars adamw_scalars(const AdamWConfig& config, const AdamWStep& step);

void adamw_kernel(const AdamWScalars& s, std::size_t n, float* parameter, const float* gradient, float* exp_avg,
                  float* exp_avg_sq);

void ema_kernel(float one_minus_decay, std::size_t n, float* average, const float* parameter);

/// Σ x² in float64, in 16 interleaved sums that are then added as a tree: the order depends on n alone.
double squares_kernel(std::size_t n, const float* values);

}  // namespace ddpm::optim
