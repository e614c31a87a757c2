// Starts the CUDA kernels that make a micro-batch out of stored images (device/cuda/batch_kernels.h); part of
// libddpm_cuda.so. All pointers are to device memory; images are contiguous and lie channels-last.
#pragma once

#include <cstdint>

#include "device/cuda/random_launch.h"

namespace ddpm::device::cuda {

inline constexpr uint32_t kBatchThreads = 256;         ///< per block, of every kernel here
inline constexpr uint32_t kChunk = 4 * kBatchThreads;  ///< elements of an image that a block makes

constexpr uint32_t chunks_of(uint32_t elements) { return (elements + kChunk - 1) / kChunk; }

struct StoredImages {
  uint32_t width, channels;
  uint32_t elements;    ///< values in one image
  float scale, offset;  ///< what float32 values become: value · scale + offset
  bool flip;            ///< whether a coin is tossed for each image
  bool whole;           ///< whether rows can be moved four elements at a time; set when a kernel is started
};

inline constexpr uint32_t kLossNumbers = 9;  ///< the sum, the sums by quartile of the timesteps, and their counts

// All only queue work on `stream`. They throw c10::Error when a kernel cannot be started.

/// to [count, elements]: the model's values of `from`, flipped where coins say so. Stored: uint8_t or float.
template <typename Stored>
void start_model_images(const Draw& coins, StoredImages images, uint32_t count, const Stored* from, float* to,
                        CUstream_st* stream);

/// What is blended: for image i, of_x[t[i]] · x + of_y[t[i]] · y. x, y [count, elements].
struct Blend {
  const float *x, *y;
  const int64_t* t;
  const float *of_x, *of_y;
};

/// Out: float, c10::BFloat16 or c10::Half.
template <typename Out>
void start_blend(const Blend& blend, uint32_t count, uint32_t elements, Out* to, CUstream_st* stream);

/// row [kLossNumbers]: see the kernel.
void start_loss_row(const float* losses, const int64_t* place, uint32_t images, int64_t places, double* row,
                    CUstream_st* stream);

}  // namespace ddpm::device::cuda
