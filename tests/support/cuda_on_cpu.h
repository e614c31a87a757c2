// Runs CUDA kernels on the CPU, a thread block at a time, so that tests on machines without a GPU execute the very code
// that nvcc compiles. Each CUDA thread is a fiber; __syncthreads() and warp shuffles switch between them, in another
// order in each block: from first to last, from last to first, or shuffled. For correctness only: it is thousands of
// times slower.
//
// In a program that ThreadSanitizer watches (cuda_races_test), each fiber is a thread of its own to it, ordered with
// the others of its block by __syncthreads() alone: two that use the same memory without one between them are reported.
//
// Include it before the header that holds kernels. That header uses, of CUDA, no more than what is defined here. A
// block whose threads are deadlocked ends the program, with a message; so does an assert in a kernel.
#pragma once

#include <cassert>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>

// NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming): the names are CUDA's
#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __shared__ static  // one block runs at a time, on one thread
#define __launch_bounds__(...)
#define __grid_constant__

struct dim3 {
  unsigned x = 1, y = 1, z = 1;
  dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}  // NOLINT: implicit, as in CUDA
};
struct alignas(16) float4 {
  float x, y, z, w;
};
struct alignas(16) uint4 {
  uint32_t x, y, z, w;
};
struct alignas(8) uint2 {
  uint32_t x, y;
};

// The indices of the CUDA thread that runs.
extern dim3 threadIdx, blockIdx, blockDim, gridDim;
inline constexpr int warpSize = 32;

namespace ddpm::test::cuda {

/// Runs `kernel` for every thread of every block. Ends the program where a GPU could not start so many.
void launch(dim3 grid, dim3 block, const std::function<void()>& kernel);

/// Starts kernels as the functions of src that are told how to start them want it.
struct OnCpu {
  template <typename... Arguments>
  void operator()(void (*kernel)(Arguments...), int64_t blocks, int threads, const Arguments&... arguments) const {
    launch(static_cast<unsigned>(blocks), static_cast<unsigned>(threads), [&] { kernel(arguments...); });
  }
};

void wait_for_block();
/// All lanes of the running thread's warp give 8 bytes; each gets those of lane `from`.
uint64_t exchange(uint64_t mine, int from);
int lane();

template <typename T>
T shuffle(T value, int from) {
  static_assert(sizeof(T) <= sizeof(uint64_t));
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(T));
  bits = exchange(bits, from);
  std::memcpy(&value, &bits, sizeof(T));
  return value;
}

}  // namespace ddpm::test::cuda

inline void __syncthreads() { ddpm::test::cuda::wait_for_block(); }

// With a full mask and the whole warp's width.
template <typename T>
T __shfl_xor_sync(unsigned /*mask*/, T value, int lane_mask) {
  return ddpm::test::cuda::shuffle(value, ddpm::test::cuda::lane() ^ lane_mask);
}
template <typename T>
T __shfl_down_sync(unsigned /*mask*/, T value, unsigned delta) {
  const int from = ddpm::test::cuda::lane() + static_cast<int>(delta);
  return ddpm::test::cuda::shuffle(value, from < warpSize ? from : ddpm::test::cuda::lane());
}
template <typename T>
T __shfl_sync(unsigned /*mask*/, T value, int from) {
  return ddpm::test::cuda::shuffle(value, from);
}

template <typename T>
T __ldg(const T* address) {
  return *address;
}
inline float rsqrtf(float x) { return 1.0F / std::sqrt(x); }
inline float __expf(float x) { return std::exp(x); }
inline float __fdividef(float x, float y) { return x / y; }
inline double __dadd_rn(double x, double y) { return x + y; }
inline double __dmul_rn(double x, double y) { return x * y; }
inline float __fadd_rn(float x, float y) { return x + y; }
inline float __fsub_rn(float x, float y) { return x - y; }
inline float __fdiv_rn(float x, float y) { return x / y; }
inline float __fsqrt_rn(float x) { return std::sqrt(x); }
inline float __fmul_rn(float x, float y) { return x * y; }
inline uint32_t __umulhi(uint32_t x, uint32_t y) { return static_cast<uint32_t>((uint64_t{x} * y) >> 32U); }
// NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming)
