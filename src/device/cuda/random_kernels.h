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

inline constexpr uint32_t kDrawThreads = 256;  ///< per block, of every kernel here

// Timesteps --------------------------------------------------------------------------------------------------------

inline uint32_t timestep_blocks(uint32_t images) { return (images + kDrawThreads - 1) / kDrawThreads; }

/// out [images]: uniform in [0, num_train_timesteps). One thread per image.
static __global__ void __launch_bounds__(kDrawThreads)
    timesteps_kernel(Draw draw, uint32_t images, uint32_t num_train_timesteps, int64_t* out) {
  const uint32_t image = blockIdx.x * kDrawThreads + threadIdx.x;
  if (image < images) out[image] = ImageSequence(draw, image).below(num_train_timesteps);
}

// Numbers of images ------------------------------------------------------------------------------------------------

/// A number for each element of bands of rows of images that lie channels-last. A thread draws one Philox block: four
/// neighbours in the image's CHW order. So a block of threads makes a tile of pixels and channels in shared memory, and
/// writes it in the order of memory.
struct TilePlan {
  uint32_t channels, pixels;                    ///< of a band
  uint32_t plane, first_pixel;                  ///< pixels of the whole image; where the band begins
  uint32_t tile_channels = 0, tile_pixels = 0;  ///< of a tile; it has fewer where a band ends. tile_pixels % 4 == 0
  uint32_t tile_columns = 0, tile_rows = 0;     ///< tiles of a band, along pixels and channels
  /// It is 1 where a group of four pixels may lie in two Philox blocks.
  [[nodiscard]] constexpr uint32_t straddle() const { return plane % 4 == 0 && first_pixel % 4 == 0 ? 0 : 1; }
  [[nodiscard]] constexpr uint32_t tiles() const { return tile_columns * tile_rows; }
};

inline constexpr uint32_t kTileElements = 4 * kDrawThreads;

inline TilePlan plan_tiles(uint32_t channels, uint32_t pixels, uint32_t plane, uint32_t first_pixel) {
  TilePlan plan{.channels = channels, .pixels = pixels, .plane = plane, .first_pixel = first_pixel};
  plan.tile_channels = std::min(channels, kDrawThreads);
  const uint32_t blocks = kDrawThreads / plan.tile_channels;  // for each channel, in one go
  plan.tile_pixels = 4 * std::max(1U, blocks - std::min(blocks, plan.straddle()));
  plan.tile_columns = (pixels + plan.tile_pixels - 1) / plan.tile_pixels;
  plan.tile_rows = (channels + plan.tile_channels - 1) / plan.tile_channels;
  return plan;
}
/// Plans tiles of whole images.
inline TilePlan plan_tiles(uint32_t channels, uint32_t pixels) { return plan_tiles(channels, pixels, pixels, 0); }

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

/// Each channel of an image is shifted by `amount` times a normal of its own: element c of the stream.
struct OffsetNoise {
  uint32_t stream;
  float amount;  ///< 0: none is drawn
};

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
