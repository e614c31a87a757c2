// CUDA kernels that make a micro-batch out of stored images: what ATen would do in several passes, in one each, with
// the bits of the CPU (--fmad=false: products are rounded before they are added). Include it after <cuda_runtime.h>.
#pragma once

#include <algorithm>
#include <cstdint>

#include "device/cuda/batch_launch.h"
#include "device/cuda/random_sequence.h"

namespace ddpm::device::cuda {

/// Four neighbours, moved as one where all groups of four begin at multiples of their size: `whole` below.
template <typename T>
struct alignas(4 * sizeof(T)) Four {
  T value[4];  // NOLINT(modernize-avoid-c-arrays)
};

/// For images of `elements` that begin at `memory`.
template <typename T>
bool fours_are_whole(const T* memory, uint32_t elements) {
  return elements % 4 == 0 && reinterpret_cast<uintptr_t>(memory) % sizeof(Four<T>) == 0;
}

template <typename T>
__device__ Four<T> load_four(const T* from, uint32_t count, bool whole) {
  if (whole) return *reinterpret_cast<const Four<T>*>(from);
  Four<T> four{};
  for (uint32_t k = 0; k < 4 && k < count; ++k) four.value[k] = from[k];
  return four;
}

template <typename T>
__device__ void store_four(T* to, const Four<T>& four, uint32_t count, bool whole) {
  if (whole) {
    *reinterpret_cast<Four<T>*>(to) = four;
    return;
  }
  for (uint32_t k = 0; k < 4 && k < count; ++k) to[k] = four.value[k];
}

// Stored images --------------------------------------------------------------------------------------------------

__device__ inline float model_value(uint8_t stored, const StoredImages& /*images*/) {
  return static_cast<float>(stored) / 127.5F - 1.0F;
}
__device__ inline float model_value(float stored, const StoredImages& images) {
  return stored * images.scale + images.offset;
}

/// Four elements of an image whose rows are mirrored, from `first` on.
template <typename Stored>
__device__ Four<Stored> load_mirrored(const Stored* image, const StoredImages& images, uint32_t first) {
  Four<Stored> four{};
  uint32_t channel = first % images.channels;
  uint32_t column = first / images.channels % images.width;
  uint32_t row_begin = first - column * images.channels - channel;
  for (uint32_t k = 0; k < 4 && first + k < images.elements; ++k) {
    four.value[k] = image[row_begin + (images.width - 1 - column) * images.channels + channel];
    if (++channel < images.channels) continue;
    channel = 0;
    if (++column < images.width) continue;
    column = 0;
    row_begin += images.width * images.channels;
  }
  return four;
}

/// stored [n, height, width, channels] to out, of the same shape: in the model's range, and mirrored where the image's
/// coin says so. chunks_of(elements) blocks for each image.
template <typename Stored>
__global__ void __launch_bounds__(kBatchThreads)
    model_images_kernel(Draw coins, StoredImages images, const Stored* stored, float* out) {
  __shared__ bool mirrored;
  const uint32_t chunks = chunks_of(images.elements);
  const uint32_t image = blockIdx.x / chunks;
  const uint32_t first = blockIdx.x % chunks * kChunk + 4 * threadIdx.x;
  if (threadIdx.x == 0) mirrored = images.flip && ImageSequence(coins, image).below(2) == 1;
  __syncthreads();
  if (first >= images.elements) return;

  const uint64_t begin = uint64_t{image} * images.elements;
  const uint32_t count = images.elements - first;
  const Four<Stored> from =
      mirrored ? load_mirrored(stored + begin, images, first) : load_four(stored + begin + first, count, images.whole);
  Four<float> to{};
  for (uint32_t k = 0; k < 4; ++k) to.value[k] = model_value(from.value[k], images);
  store_four(out + begin + first, to, count, images.whole);
}

// Blends ---------------------------------------------------------------------------------------------------------

/// out[i] = of_x[t[i]] · x[i] + of_y[t[i]] · y[i] for images [n, elements]; chunks_of(elements) blocks for each.
template <typename Out>
__global__ void __launch_bounds__(kBatchThreads)
    blend_kernel(const float* x, const float* y, const int64_t* t, const float* of_x, const float* of_y,
                 uint32_t elements, bool whole, Out* out) {
  const uint32_t chunks = chunks_of(elements);
  const uint32_t image = blockIdx.x / chunks;
  const uint32_t first = blockIdx.x % chunks * kChunk + 4 * threadIdx.x;
  if (first >= elements) return;
  const float a = of_x[t[image]];
  const float b = of_y[t[image]];
  const uint64_t begin = uint64_t{image} * elements + first;
  const Four<float> from_x = load_four(x + begin, elements - first, whole);
  const Four<float> from_y = load_four(y + begin, elements - first, whole);
  Four<Out> to{};
  for (uint32_t k = 0; k < 4; ++k) to.value[k] = static_cast<Out>(a * from_x.value[k] + b * from_y.value[k]);
  store_four(out + begin, to, elements - first, whole);
}

// Losses ---------------------------------------------------------------------------------------------------------

inline constexpr uint32_t kLossThreads = 32;

/// row [9]: see train::LossSums::pack. A number per thread, each summed in the order of the images, as on the CPU.
static __global__ void __launch_bounds__(kLossThreads)
    loss_row_kernel(const float* losses, const int64_t* timesteps, uint32_t images, int64_t num_train_timesteps,
                    double* row) {
  const uint32_t number = threadIdx.x;
  if (number >= kLossNumbers) return;
  const uint32_t quartile = (number + 3) % 4;  // numbers 1 to 4 and 5 to 8 belong to quartiles 0 to 3
  double sum = 0.0;
  for (uint32_t i = 0; i < images; ++i) {
    const bool mine = number == 0 || timesteps[i] * 4 / num_train_timesteps == quartile;
    const double value = number <= 4 ? static_cast<double>(losses[i]) : 1.0;
    if (mine) sum += value;
  }
  row[number] = sum;
}

}  // namespace ddpm::device::cuda
