// The last CUDA kernel of group normalisation's backward pass: gradients of the parameters and of the modulation, from
// the sums of all tiles. See group_norm_backward.cuh for the formulas.
#pragma once

#include <cstdint>

#include "nn/ops/cuda/group_norm_backward.cuh"

namespace ddpm::nn::cuda {

/// A block has some channels, 32 bytes of each row of sums. Its warps take images in turn; in a warp, several lanes
/// share the chunks of a channel.
constexpr int kParameterChannels = 8;
constexpr int kParameterShares = kWarp / kParameterChannels;
constexpr int kParameterWarps = 8;

__device__ inline double sum_over_shares(double value) {
  for (int step = kParameterChannels; step < kWarp; step *= 2) value += __shfl_xor_sync(0xffffffffU, value, step);
  return value;
}

/// Σ over the chunks of an image, the same in all lanes that share the channel. All lanes call it.
__device__ inline double image_sum(const NormBackward& a, int image, NormSum kind, int channel, int share) {
  const NormGrid& g = a.batch.grid;
  double sum = 0.0;
  if (channel < g.channels) {
    for (int chunk = share; chunk < g.chunks; chunk += kParameterShares) {
      sum += static_cast<double>(a.sums[sum_index(g, image, chunk, kind, channel)]);
    }
  }
  return sum_over_shares(sum);
}

/// Σ dx over an image's pixels. All lanes call it.
__device__ inline double shift_gradient(const NormBackward& a, int image, int channel, int share, double p) {
  const NormBatch& b = a.batch;
  const NormGrid& g = b.grid;
  const int c = channel < g.channels ? channel : 0;
  const int group = c / (g.channels / g.groups);
  const double x = image_sum(a, image, kSumX, channel, share);
  const GroupSums of_group(a, image, group, share, kParameterShares);
  const double mean_p = sum_over_shares(of_group.p) / group_elements(g);
  const double mean_r = sum_over_shares(of_group.r) / group_elements(g);
  const double over_pixels =
      static_cast<double>(image_weight(b, image, c)) * p - static_cast<double>(g.pixels) * mean_p - x * mean_r;
  return over_pixels * static_cast<double>(b.rstd[static_cast<int64_t>(image) * g.groups + group]);
}

__global__ __launch_bounds__(kParameterWarps* kWarp) void norm_parameter_gradients(NormBackward a) {
  __shared__ double weights[kParameterWarps][kParameterChannels];
  __shared__ double biases[kParameterWarps][kParameterChannels];
  const NormBatch& b = a.batch;
  const NormGradients& gradients = a.gradients;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const int column = lane % kParameterChannels;
  const int share = lane / kParameterChannels;
  const int c = static_cast<int>(blockIdx.x) * kParameterChannels + column;
  const bool writes = share == 0 && c < b.grid.channels;
  double weight = 0.0;
  double bias = 0.0;
  for (int image = warp; image < b.grid.images; image += kParameterWarps) {
    const double p = image_sum(a, image, kSumP, c, share);
    const double r = image_sum(a, image, kSumR, c, share);
    if (gradients.shift_before.data != nullptr) {
      const double shift = shift_gradient(a, image, c, share, p);
      if (writes) put(gradients.shift_before, image, c, shift);
    }
    if (!writes) continue;
    const double factor = 1.0 + static_cast<double>(value_at(b.scale, image, c));
    weight += factor * r;
    bias += factor * p;
    put(gradients.shift_after, image, c, p);
    put(gradients.scale, image, c,
        static_cast<double>(value_at(b.weight, 0, c)) * r + static_cast<double>(value_at(b.bias, 0, c)) * p);
  }
  if (share == 0) {
    weights[warp][column] = weight;
    biases[warp][column] = bias;
  }
  __syncthreads();
  if (warp != 0 || !writes) return;
  for (int other = 1; other < kParameterWarps; ++other) {
    weight += weights[other][column];
    bias += biases[other][column];
  }
  put(gradients.weight, 0, c, weight);
  put(gradients.bias, 0, c, bias);
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
  const int64_t columns = plan::divide_up(plan.grid.channels, kParameterChannels);
  launch(norm_parameter_gradients, columns, kParameterWarps * kWarp, a);
}

}  // namespace ddpm::nn::cuda
