// CUDA kernels for the random inputs of training, with the bits of diffusion/noise.h and nn/dropout.h on the CPU.
// Include it after <cuda_runtime.h>, in what is compiled with --fmad=false.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "base/box_muller.h"
#include "base/philox.h"
#include "device/cuda/random_sequence.h"

namespace ddpm::device::cuda {

// Timesteps --------------------------------------------------------------------------------------------------------

inline uint32_t timestep_blocks(uint32_t images) { return (images + kDrawThreads - 1) / kDrawThreads; }

/// out [images]: uniform in [0, num_train_timesteps). One thread per image.
static __global__ void __launch_bounds__(kDrawThreads)
    timesteps_kernel(Draw draw, uint32_t images, uint32_t num_train_timesteps, int64_t* out) {
  const uint32_t image = blockIdx.x * kDrawThreads + threadIdx.x;
  if (image < images) out[image] = ImageSequence(draw, image).below(num_train_timesteps);
}

// Numbers of images ------------------------------------------------------------------------------------------------

/// What the running block of threads makes; tiles() blocks for each image.
struct Tile {
  uint32_t image, first_channel, first_pixel, channels, pixels;

  __device__ explicit Tile(const TilePlan& plan)
      : image(blockIdx.x / plan.tiles()),
        first_channel(blockIdx.x % plan.tiles() / plan.tile_columns * plan.tile_channels),
        first_pixel(blockIdx.x % plan.tiles() % plan.tile_columns * plan.tile_pixels),
        channels(std::min(plan.tile_channels, plan.channels - first_channel)),
        pixels(std::min(plan.tile_pixels, plan.pixels - first_pixel)) {}
};

/// The values of four neighbouring elements.
struct FourFloats {
  float value[4];  // NOLINT(modernize-avoid-c-arrays): std::array's functions are the host's
};

/// Writes values(words, channel of the tile) for all of the tile into `out` [images, pixels, channels].
template <typename Out, typename Values>
__device__ void draw_tile(const TilePlan& plan, const Tile& tile, const ImageSequence& sequence, const Values& values,
                          Out* out) {
  __shared__ float made[kTileElements];                             // [pixels, channels]
  const uint32_t groups = (tile.pixels + 3) / 4 + plan.straddle();  // Philox blocks of a channel
  for (uint32_t item = threadIdx.x; item < tile.channels * groups; item += kDrawThreads) {
    const uint32_t channel = item % tile.channels;  // neighbours write neighbours: few bank conflicts
    const uint64_t begin = uint64_t{tile.first_channel + channel} * plan.plane + plan.first_pixel + tile.first_pixel;
    const uint64_t block = begin / 4 + item / tile.channels;
    const FourFloats four = values(sequence.block(static_cast<uint32_t>(block)), channel);
    for (uint32_t k = 0; k < 4; ++k) {
      const int64_t pixel = static_cast<int64_t>(4 * block + k) - static_cast<int64_t>(begin);
      if (pixel >= 0 && pixel < tile.pixels) made[pixel * tile.channels + channel] = four.value[k];
    }
  }
  __syncthreads();
  Out* const rows = out + (uint64_t{tile.image} * plan.pixels + tile.first_pixel) * plan.channels + tile.first_channel;
  for (uint32_t i = threadIdx.x; i < tile.pixels * tile.channels; i += kDrawThreads) {
    // A tile that has all channels is one run of memory.
    const uint64_t place = plan.tile_rows == 1 ? i : uint64_t{i / tile.channels} * plan.channels + i % tile.channels;
    rows[place] = static_cast<Out>(made[i]);
  }
}

// Normals ----------------------------------------------------------------------------------------------------------

__device__ inline FourFloats normals_of(const base::PhiloxWords& words) {
  using namespace base::box_muller;
  const double radius0 = sqrt(-2.0 * natural_log(uniform_of(words.w0)));
  const SineCosine angle0 = sine_cosine(words.w1);
  const double radius1 = sqrt(-2.0 * natural_log(uniform_of(words.w2)));
  const SineCosine angle1 = sine_cosine(words.w3);
  return {{static_cast<float>(radius0 * angle0.cosine), static_cast<float>(radius0 * angle0.sine),
           static_cast<float>(radius1 * angle1.cosine), static_cast<float>(radius1 * angle1.sine)}};
}

/// The shifts of a tile's channels, four by a thread.
__device__ inline void draw_shifts(Draw draw, const OffsetNoise& offset, const Tile& tile, float* shifts) {
  draw.stream = offset.stream;
  const uint32_t first = 4 * threadIdx.x;  // tiles begin at multiples of four channels
  if (first >= tile.channels) return;
  const FourFloats normals = normals_of(ImageSequence(draw, tile.image).block(tile.first_channel / 4 + threadIdx.x));
  for (uint32_t k = 0; k < 4; ++k) {
    if (first + k < tile.channels) shifts[first + k] = normals.value[k];
  }
}

/// out [images, pixels, channels]: standard normals, element = index in the image's CHW order, plus offset noise.
static __global__ void __launch_bounds__(kDrawThreads)
    normals_kernel(Draw draw, OffsetNoise offset, TilePlan plan, float* out) {
  __shared__ float shifts[kDrawThreads];  // by channel of the tile
  const Tile tile(plan);
  if (offset.amount != 0.0F) {
    draw_shifts(draw, offset, tile, shifts);
    __syncthreads();
  }
  const auto values = [&](const base::PhiloxWords& words, uint32_t channel) {
    FourFloats four = normals_of(words);
    if (offset.amount != 0.0F) {  // as ATen adds on CPUs that have fused operations
      for (float& value : four.value) value = fmaf(offset.amount, shifts[channel], value);
    }
    return four;
  };
  draw_tile(plan, tile, ImageSequence(draw, tile.image), values, out);
}

// Dropout ----------------------------------------------------------------------------------------------------------

/// out [images, pixels, channels]: 0 where the element's uniform number is below `threshold`, and `kept` otherwise.
template <typename Out>
__global__ void __launch_bounds__(kDrawThreads)
    dropout_mask_kernel(Draw draw, float threshold, float kept, TilePlan plan, Out* out) {
  const Tile tile(plan);
  const auto kept_of = [&](uint32_t word) {
    return static_cast<float>(base::box_muller::uniform_of(word)) < threshold ? 0.0F : kept;
  };
  const auto values = [&](const base::PhiloxWords& words, uint32_t /*channel*/) -> FourFloats {
    return {{kept_of(words.w0), kept_of(words.w1), kept_of(words.w2), kept_of(words.w3)}};
  };
  draw_tile(plan, tile, ImageSequence(draw, tile.image), values, out);
}

}  // namespace ddpm::device::cuda
