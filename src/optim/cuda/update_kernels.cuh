// CUDA kernels of optim/update_operators.h, and the grids they run on.
//
// Include it after CUDA's runtime header. It uses so little of CUDA that tests run it on a CPU, on the same grids.
// Every operation is rounded by itself (__fmul_rn and the like are never fused), in the order of
// optim/flat_kernels.cpp: results are the host's, bit for bit. Sums have a fixed order, whatever the grid.
#pragma once

#include <cstdint>
#include <type_traits>

#include "optim/cuda/squares_kernels.cuh"
#include "optim/update_record.h"

namespace ddpm::optim {

/// One thread.
__global__ void begin_update_kernel(UpdateRules rules, ScheduleRows schedule, double* record, float* scalars) {
  decide_update(rules, schedule, *reinterpret_cast<UpdateRecord*>(record), scalars);
}

template <typename T, int kCount>
struct alignas(sizeof(T) * kCount) Pack {
  T x[kCount];
};

template <int kCount>
__device__ __forceinline__ Pack<float, kCount> load(const float* from) {
  return *reinterpret_cast<const Pack<float, kCount>*>(from);
}
template <typename T, int kCount>
__device__ __forceinline__ void store(T* to, const Pack<T, kCount>& values) {
  *reinterpret_cast<Pack<T, kCount>*>(to) = values;
}

/// adamw_loop's body.
__device__ __forceinline__ void adamw_element(const AdamWScalars& s, float gradient, float& p, float& m, float& v) {
  const float g = __fmul_rn(gradient, s.gradient_scale);
  m = __fadd_rn(m, __fmul_rn(s.one_minus_beta1, __fsub_rn(g, m)));
  v = __fadd_rn(__fmul_rn(v, s.beta2), __fmul_rn(__fmul_rn(s.one_minus_beta2, g), g));
  const float denominator = __fadd_rn(__fdiv_rn(__fsqrt_rn(v), s.root_correction), s.eps);
  p = __fsub_rn(__fmul_rn(p, s.keep), __fmul_rn(s.step_size, __fdiv_rn(m, denominator)));
}

/// Elements [i, i + kCount) of a piece.
template <typename Working, bool kWeights, int kCount>
__device__ __forceinline__ void update_elements(const UpdatePiece& piece, int averages, const AdamWScalars& s,
                                                const float* one_minus_decay, int64_t i) {
  Pack<float, kCount> p = load<kCount>(piece.parameter + i);
  Pack<float, kCount> average[kMaxAverages];
#pragma unroll
  for (int k = 0; k < kMaxAverages; ++k) {
    if (k < averages) average[k] = load<kCount>(piece.average[k] + i);
  }
  if constexpr (kWeights) {
    const Pack<float, kCount> g = load<kCount>(piece.gradient + i);
    Pack<float, kCount> m = load<kCount>(piece.exp_avg + i);
    Pack<float, kCount> v = load<kCount>(piece.exp_avg_sq + i);
    for (int e = 0; e < kCount; ++e) adamw_element(s, g.x[e], p.x[e], m.x[e], v.x[e]);
    store(piece.parameter + i, p);
    store(piece.exp_avg + i, m);
    store(piece.exp_avg_sq + i, v);
    if constexpr (!std::is_same_v<Working, float>) {
      Pack<Working, kCount> working;
      for (int e = 0; e < kCount; ++e) working.x[e] = static_cast<Working>(p.x[e]);
      store(static_cast<Working*>(piece.working) + i, working);
    }
  }
#pragma unroll
  for (int k = 0; k < kMaxAverages; ++k) {
    if (k >= averages) break;
    for (int e = 0; e < kCount; ++e) {
      const float step = __fmul_rn(one_minus_decay[k], __fsub_rn(average[k].x[e], p.x[e]));
      average[k].x[e] = __fsub_rn(average[k].x[e], step);
    }
    store(piece.average[k] + i, average[k]);
  }
}

/// Working: c10::BFloat16 or c10::Half; float where the parameters are the working weights. Without kWeights only the
/// averages follow, where there are more than one launch takes.
template <typename Working, bool kWeights>
__global__ void __launch_bounds__(kUpdateThreads)
    flat_update_kernel(const __grid_constant__ UpdateBatch batch, const float* scalars) {
  const UpdateScalars s = *reinterpret_cast<const UpdateScalars*>(scalars);
  if (s.applies == 0.0F) return;
  float one_minus_decay[kMaxAverages] = {};
#pragma unroll
  for (int k = 0; k < kMaxAverages; ++k) {
    if (k < batch.averages) one_minus_decay[k] = scalars[kScalarsSize + batch.first_average + k];
  }
  const int64_t chunk = blockIdx.x;
  const int index = find_run(batch.first_chunk, batch.count, chunk);
  const UpdatePiece& piece = batch.pieces[index];
  const int64_t begin = (chunk - batch.first_chunk[index]) * kUpdateChunk;
  const int64_t left = piece.size - begin;
  const int size = static_cast<int>(left < kUpdateChunk ? left : kUpdateChunk);
  const int in_vectors = batch.aligned[index] ? size / kUpdateVector * kUpdateVector : 0;
  for (int i = static_cast<int>(threadIdx.x) * kUpdateVector; i < in_vectors; i += kUpdateThreads * kUpdateVector) {
    update_elements<Working, kWeights, kUpdateVector>(piece, batch.averages, s.adamw, one_minus_decay, begin + i);
  }
  for (int i = in_vectors + static_cast<int>(threadIdx.x); i < size; i += kUpdateThreads) {
    update_elements<Working, kWeights, 1>(piece, batch.averages, s.adamw, one_minus_decay, begin + i);
  }
}

}  // namespace ddpm::optim
