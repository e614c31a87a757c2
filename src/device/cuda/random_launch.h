// Starts the CUDA kernels that draw the random inputs of training (device/cuda/random_kernels.h); part of
// libddpm_cuda.so. All pointers are to device memory.
#pragma once

#include <algorithm>
#include <cstdint>

struct CUstream_st;  // what CUDA's cudaStream_t points to

namespace ddpm::device::cuda {

inline constexpr uint32_t kDrawThreads = 256;  ///< per block, of every kernel here

/// What the numbers of a batch are functions of; image i has position first + i.
struct Draw {
  const int64_t* step;  ///< on the device
  uint64_t seed;
  uint32_t stream;
  uint32_t first;
};

/// Each channel of an image is shifted by `amount` times a normal of its own: element c of the stream.
struct OffsetNoise {
  uint32_t stream;
  float amount;  ///< 0: none is drawn
};

/// A number for each element of bands of rows of images that lie channels-last. A thread draws one Philox block: four
/// neighbours in the image's CHW order. So a block of threads makes a tile of pixels and channels in shared memory, and
/// writes it in the order of memory.
struct TilePlan {
  uint32_t channels, pixels;                    ///< channels and pixels in a band
  uint32_t plane, first_pixel;                  ///< pixels of the whole image; where the band begins
  uint32_t tile_channels = 0, tile_pixels = 0;  ///< size of a tile, smaller where a band ends. tile_pixels % 4 == 0
  uint32_t tile_columns = 0, tile_rows = 0;     ///< tiles in a band, along pixels and channels
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

// All only queue work on `stream`. They throw c10::Error when a kernel cannot be started.

/// out [images]: uniform in [0, num_train_timesteps).
void start_timesteps(const Draw& draw, uint32_t images, uint32_t num_train_timesteps, int64_t* out,
                     CUstream_st* stream);

/// out [images, pixels, channels]: standard normals, plus offset noise.
void start_normals(const Draw& draw, const OffsetNoise& offset, const TilePlan& plan, uint32_t images, float* out,
                   CUstream_st* stream);

/// out [images, pixels, channels]: 0 with probability p, else 1 / (1 - p). Out: float, c10::BFloat16 or c10::Half.
template <typename Out>
void start_dropout_mask(const Draw& draw, double p, const TilePlan& plan, uint32_t images, Out* out,
                        CUstream_st* stream);

}  // namespace ddpm::device::cuda
