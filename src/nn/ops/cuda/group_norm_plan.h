// How the CUDA kernels of group normalisation cut a batch of channels-last images among thread blocks. Plain
// arithmetic: the kernels' launches and the tests that run them on the CPU take the same cut from here.
//
// A block works on a tile: a run of pixels ("chunk") of one image by a run of channels ("slab") that holds whole
// groups, or a piece of one group where a group is wider than a slab. Its threads stand in columns, of one vector of
// channels each, and rows, of one pixel each at a time. The cut follows from the size of one image, its dtype and
// alignment: an image has the same bits in any batch and on any GPU.
#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <numeric>

#include "base/round_up.h"

namespace ddpm::nn::cuda {

enum class ElementType : uint8_t { float32, bfloat16, float16 };

/// Whether all begin at multiples of 16 bytes, as null does.
inline bool aligned_for_vectors(std::initializer_list<const void*> pointers) {
  return std::ranges::all_of(pointers, [](const void* p) { return reinterpret_cast<std::uintptr_t>(p) % 16 == 0; });
}

inline int64_t bytes_of(ElementType type) { return type == ElementType::float32 ? 4 : 2; }

struct NormShape {
  int64_t images;
  int64_t channels;
  int64_t pixels;
  int64_t groups;  ///< divides the channels
};

/// Part of the kernels' arguments.
struct NormGrid {
  int32_t images;
  int32_t channels;
  int32_t pixels;
  int32_t groups;
  int32_t slab_channels;  ///< width of a slab; the last one of an image or of a group may be narrower
  int32_t slabs;          ///< slabs per image
  int32_t parts;          ///< slabs per group; 1: a slab holds whole groups
  int32_t columns;        ///< columns of threads in a block
  int32_t rows;           ///< rows of threads in a block
  int32_t chunk_pixels;   ///< length of a chunk; the last one may be shorter
  int32_t chunks;         ///< chunks per image

  /// What a block has sums of: a group, or a piece of one.
  [[nodiscard]] int64_t cells() const { return int64_t{images} * chunks * groups * parts; }
  [[nodiscard]] int64_t tiles() const { return int64_t{images} * chunks * slabs; }
};

struct NormPlan {
  NormGrid grid;
  int vector;     ///< channels per load: 16 bytes of them, or 1
  bool one_pass;  ///< a block keeps its tile, all pixels of a slab, in registers; needs vectors of 16 bytes
  int threads;    ///< per block
};

constexpr int kWarp = 32;
constexpr int kMaxColumns = 64;
constexpr int kMaxSlabChannels = kMaxColumns * 8;
constexpr int kTwoPassThreads = 256;
constexpr int kOnePassThreads = 512;  ///< at most
/// Vectors that a thread of a one-pass kernel keeps: of x, and in backward of dy too.
constexpr int kForwardHeld = 8;
constexpr int kBackwardHeld = 4;
/// Per block of the kernels that add up the gradients of the parameters.
constexpr int kParameterWarps = 8;

namespace plan {

constexpr int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// Whether slabs of at most kMaxColumns vectors can begin and end between vectors.
inline bool takes_vectors(const NormShape& s, int64_t vector) {
  const int64_t group = s.channels / s.groups;
  const int64_t widest = kMaxColumns * vector;
  return s.channels % vector == 0 && (group <= widest ? std::lcm(group, vector) <= widest : group % vector == 0);
}

/// A thread keeps 4 vectors before blocks grow, so that small images make many small blocks.
inline int64_t one_pass_rows(int64_t pixels, int64_t columns, int64_t held) {
  constexpr int64_t kLeastThreads = 64;
  const int64_t threads = std::clamp<int64_t>(divide_up(pixels * columns, 4), kLeastThreads, kOnePassThreads);
  return std::min(pixels, std::max(threads / columns, divide_up(pixels, held)));
}

inline NormGrid grid_of(const NormShape& s) {
  NormGrid grid{};
  grid.images = static_cast<int32_t>(s.images);
  grid.channels = static_cast<int32_t>(s.channels);
  grid.pixels = static_cast<int32_t>(s.pixels);
  grid.groups = static_cast<int32_t>(s.groups);
  grid.parts = 1;
  return grid;
}

/// Slabs of equal width, at most `groups` groups each.
inline void cut_by_groups(NormGrid& grid, int64_t groups, int64_t step, int64_t vector) {
  const int64_t slabs = divide_up(grid.groups, groups);
  const int64_t of_slab = base::round_up(divide_up(grid.groups, slabs), step);
  grid.slabs = static_cast<int32_t>(divide_up(grid.groups, of_slab));
  grid.slab_channels = static_cast<int32_t>(of_slab * (grid.channels / grid.groups));
  grid.columns = static_cast<int32_t>(grid.slab_channels / vector);
}

inline void cut_groups(NormGrid& grid, int64_t group, int64_t vector) {
  const int64_t parts = divide_up(group, kMaxColumns * vector);
  grid.slab_channels = static_cast<int32_t>(base::round_up(divide_up(group, parts), vector));
  grid.parts = static_cast<int32_t>(divide_up(group, grid.slab_channels));
  grid.slabs = grid.groups * grid.parts;
  grid.columns = static_cast<int32_t>(grid.slab_channels / vector);
}

/// False where no slab of whole groups is narrow enough to be kept. Slabs are 64 bytes wide if possible, two of the
/// memory's sectors, and no less than one.
inline bool cut_for_one_pass(NormGrid& grid, int64_t vector, int64_t element_bytes, int64_t held) {
  constexpr int64_t kWanted = 64;
  constexpr int64_t kLeast = 32;
  const int64_t group = grid.channels / grid.groups;
  const int64_t step = std::lcm(group, vector);
  const int64_t kept = kOnePassThreads * held * vector / grid.pixels;  // channels
  const int64_t channels = std::max(step, std::min(kWanted / element_bytes, kept) / step * step);
  if (channels > kept || channels > kMaxColumns * vector) return false;
  if (channels * element_bytes < kLeast && channels < grid.channels) return false;
  cut_by_groups(grid, std::min<int64_t>(grid.groups, channels / group), step / group, vector);
  grid.rows = static_cast<int32_t>(one_pass_rows(grid.pixels, grid.columns, held));
  grid.chunk_pixels = grid.pixels;
  grid.chunks = 1;
  return grid.columns * grid.rows <= kOnePassThreads;
}

inline void cut_for_two_passes(NormGrid& grid, int64_t vector) {
  constexpr int64_t kTileElements = 16384;
  constexpr int64_t kMaxChunks = 128;  // the second pass adds up the sums of all chunks in every block
  const int64_t group = grid.channels / grid.groups;
  const int64_t widest = kMaxColumns * vector;
  if (group > widest) {
    cut_groups(grid, group, vector);
  } else {
    const int64_t step = std::lcm(group, vector);
    cut_by_groups(grid, std::min<int64_t>(grid.groups, widest / step * step / group), step / group, vector);
  }
  grid.rows = kTwoPassThreads / grid.columns;
  const int64_t least = divide_up(grid.pixels, kMaxChunks);
  const int64_t wanted = divide_up(kTileElements, grid.slab_channels);
  grid.chunk_pixels = static_cast<int32_t>(std::min<int64_t>(grid.pixels, std::max(least, wanted)));
  grid.chunks = static_cast<int32_t>(divide_up(grid.pixels, grid.chunk_pixels));
}

/// Warps that share the chunks of an image when the parameters' gradients are added up: a power of two.
constexpr int parameter_shares(const NormGrid& grid) {
  int shares = 1;
  while (shares < kParameterWarps && 2 * shares <= grid.chunks) shares *= 2;
  return shares;
}

/// Rows of blocks that do so, which have different images.
constexpr int64_t parameter_rows(const NormGrid& grid) {
  return divide_up(grid.images, kParameterWarps / parameter_shares(grid));
}

}  // namespace plan

/// `aligned`: the images begin at multiples of 16 bytes. `held`: kForwardHeld or kBackwardHeld.
inline NormPlan plan_norm(const NormShape& shape, ElementType type, bool aligned, int held) {
  const int64_t wide = 16 / bytes_of(type);
  const int64_t vector = aligned && plan::takes_vectors(shape, wide) ? wide : 1;
  NormGrid grid = plan::grid_of(shape);
  const bool one_pass = vector > 1 && plan::cut_for_one_pass(grid, vector, bytes_of(type), held);
  if (!one_pass) plan::cut_for_two_passes(grid, vector);
  const int64_t threads = one_pass ? base::round_up(int64_t{grid.columns} * grid.rows, kWarp) : kTwoPassThreads;
  return {.grid = grid, .vector = static_cast<int>(vector), .one_pass = one_pass, .threads = static_cast<int>(threads)};
}

}  // namespace ddpm::nn::cuda
