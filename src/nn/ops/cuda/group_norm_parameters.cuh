// The last CUDA kernels of group normalisation's backward pass: gradients of the parameters and of the modulation, from
// the sums of all tiles. See group_norm_backward.cuh for the formulas.
#pragma once

#include <cstdint>

#include "nn/ops/cuda/group_norm_backward.cuh"

namespace ddpm::nn::cuda {

/// What a thread adds up, of one channel and its share of an image's chunks.
struct ParameterSums {
  double p;  ///< Σ du
  double r;  ///< Σ du x̂
  double x;  ///< Σ x̂
  double group_p;
  double group_r;
};

__device__ inline ParameterSums parameter_sums(const NormBackward& a, int image, int channel, int share, int shares) {
  const NormGrid& g = a.batch.grid;
  const bool shift = a.gradients.shift_before.data != nullptr;
  ParameterSums s{};
#pragma unroll 4
  for (int chunk = share; chunk < g.chunks; chunk += shares) {
    const float* const sums = a.sums + sum_index(g, image, chunk, kSumP, channel);
    s.p += static_cast<double>(sums[0]);
    s.r += static_cast<double>(sums[g.channels]);
    if (shift) s.x += static_cast<double>(sums[2 * g.channels]);
  }
  if (shift) {
    const GroupSums of_group(a, image, channel / (g.channels / g.groups), share, shares);
    s.group_p = of_group.p;
    s.group_r = of_group.r;
  }
  return s;
}

__device__ inline void add_to(ParameterSums& s, const ParameterSums& other) {
  s.p += other.p;
  s.r += other.r;
  s.x += other.x;
  s.group_p += other.group_p;
  s.group_r += other.group_r;
}

__device__ inline void add_to(ParameterGradients& sum, const ParameterGradients& other) {
  sum.weight += other.weight;
  sum.bias += other.bias;
}

/// Σ dx over an image's pixels.
__device__ inline double shift_gradient(const NormBackward& a, int image, int channel, const ParameterSums& s) {
  const NormBatch& b = a.batch;
  const NormGrid& g = b.grid;
  const double elements = group_elements(g);
  const double over_pixels = static_cast<double>(image_weight(b, image, channel)) * s.p -
                             static_cast<double>(g.pixels) * (s.group_p / elements) - s.x * (s.group_r / elements);
  const int64_t group = static_cast<int64_t>(image) * g.groups + channel / (g.channels / g.groups);
  return over_pixels * static_cast<double>(b.rstd[group]);
}

/// Writes the gradients that belong to an image and a channel. Returns what both give to those of weight and bias.
__device__ inline ParameterGradients image_gradients(const NormBackward& a, int image, int channel,
                                                     const ParameterSums& s) {
  const NormBatch& b = a.batch;
  if (a.gradients.shift_before.data != nullptr) {
    put(a.gradients.shift_before, image, channel, shift_gradient(a, image, channel, s));
  }
  put(a.gradients.shift_after, image, channel, s.p);
  put(a.gradients.scale, image, channel,
      static_cast<double>(value_at(b.weight, 0, channel)) * s.r +
          static_cast<double>(value_at(b.bias, 0, channel)) * s.p);
  const double factor = 1.0 + static_cast<double>(value_at(b.scale, image, channel));
  return {factor * s.r, factor * s.p};
}

/// A block has the 32 channels of a warp's lanes, and some images, each by as many warps as share its chunks
/// (plan::parameter_shares). It adds up what its images give to the parameters: for weight and bias themselves, or,
/// where there are several rows of blocks, for norm_parameter_rows.
__global__ __launch_bounds__(kParameterWarps* kWarp) void norm_parameter_gradients(NormBackward a) {
  __shared__ ParameterSums sums[kParameterWarps][kWarp];
  __shared__ ParameterGradients of_images[kParameterWarps][kWarp];
  const NormGrid& g = a.batch.grid;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const int columns = static_cast<int>(plan::divide_up(g.channels, kWarp));
  const int channel = static_cast<int>(blockIdx.x) % columns * kWarp + lane;
  const int row = static_cast<int>(blockIdx.x) / columns;
  const int shares = plan::parameter_shares(g);
  const int images = kParameterWarps / shares;  // images that the block adds up
  const int image = row * images + warp / shares;
  const int share = warp % shares;
  const bool exists = channel < g.channels && image < g.images;
  sums[warp][lane] = exists ? parameter_sums(a, image, channel, share, shares) : ParameterSums{};
  __syncthreads();
  if (share == 0) {
    ParameterSums all = sums[warp][lane];
    for (int other = 1; other < shares; ++other) add_to(all, sums[warp + other][lane]);
    of_images[warp / shares][lane] = exists ? image_gradients(a, image, channel, all) : ParameterGradients{};
  }
  __syncthreads();
  if (warp != 0 || channel >= g.channels) return;
  ParameterGradients total = of_images[0][lane];
  for (int i = 1; i < images; ++i) add_to(total, of_images[i][lane]);
  if (a.parameter_rows != nullptr) {
    a.parameter_rows[static_cast<int64_t>(row) * g.channels + channel] = total;
    return;
  }
  put(a.gradients.weight, 0, channel, total.weight);
  put(a.gradients.bias, 0, channel, total.bias);
}

/// The sum over the rows of norm_parameter_gradients' blocks, each warp of a block taking some of them.
__global__ __launch_bounds__(kParameterWarps* kWarp) void norm_parameter_rows(NormBackward a) {
  __shared__ ParameterGradients of_warps[kParameterWarps][kWarp];
  const NormGrid& g = a.batch.grid;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const int channel = static_cast<int>(blockIdx.x) * kWarp + lane;
  const int rows = static_cast<int>(plan::parameter_rows(g));
  ParameterGradients total{};
  if (channel < g.channels) {
#pragma unroll 4
    for (int row = warp; row < rows; row += kParameterWarps) {
      add_to(total, a.parameter_rows[static_cast<int64_t>(row) * g.channels + channel]);
    }
  }
  of_warps[warp][lane] = total;
  __syncthreads();
  if (warp != 0 || channel >= g.channels) return;
  for (int other = 1; other < kParameterWarps; ++other) add_to(total, of_warps[other][lane]);
  put(a.gradients.weight, 0, channel, total.weight);
  put(a.gradients.bias, 0, channel, total.bias);
}

/// Calls launch(kernel, blocks, threads, arguments...) for each kernel of the backward pass.
template <typename Launch>
void group_norm_backward(const NormBackward& a, const Launch& launch) {
  const NormPlan& plan = a.plan;
  const int64_t tiles = plan.grid.tiles();
  const bool residual = a.residual_gradient != nullptr;
  for_kernels(a.type, plan.vector, a.silu, residual, [&]<typename T, int kVector, bool kSilu, bool kResidual>() {
    if constexpr (kVector > 1) {
      if (plan.one_pass) return launch(norm_backward_one_pass<T, kVector, kSilu, kResidual>, tiles, plan.threads, a);
    }
    launch(norm_gradient_sums<T, kVector, kSilu>, tiles, plan.threads, a);
    launch(norm_input_gradient<T, kVector, kSilu, kResidual>, tiles, plan.threads, a);
  });
  const int64_t columns = plan::divide_up(plan.grid.channels, kWarp);
  const int64_t rows = plan::parameter_rows(plan.grid);
  launch(norm_parameter_gradients, columns * rows, kParameterWarps * kWarp, a);
  if (rows > 1) launch(norm_parameter_rows, columns, kParameterWarps * kWarp, a);
}

}  // namespace ddpm::nn::cuda
