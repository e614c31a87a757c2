// Convolution by Winograd's minimal filtering F(4 x 4, 3 x 3): see nn/ops/winograd.h.
//
// A pixel's bits depend on its own tile alone, whatever other tiles are computed with it.
#pragma once

#include "nn/ops/cpu/lanes.h"
#include "nn/ops/cpu/small_products.h"
#include "nn/ops/cpu/winograd_points.h"

namespace ddpm::nn::cpu {
namespace {

/// sums [kRowsNow, kWidth] = points [kRowsNow, channels] · weights [channels, kWidth]
template <int kLanes, int kRowsNow>
DDPM_INLINE void multiply_rows(const float* points, int64_t channels, const float* weights, float* sums) {
  Block<kLanes, kRowsNow, kVectors> block{};
  multiply_add<kLanes, kRowsNow, kVectors>(block, {points, channels, 1}, weights, kWidth<kLanes>, channels);
  store_block<kLanes, kRowsNow, kVectors>(sums, block, kWidth<kLanes>);
}

template <int kLanes>
DDPM_INLINE void multiply_tiles(const float* points, int64_t channels, int64_t count, const float* weights,
                                float* sums) {
  int64_t t = 0;
  for (; t + kTileRows <= count; t += kTileRows) {
    multiply_rows<kLanes, kTileRows>(points + t * channels, channels, weights, sums + t * kWidth<kLanes>);
  }
  for (; t + kRows <= count; t += kRows) {
    multiply_rows<kLanes, kRows>(points + t * channels, channels, weights, sums + t * kWidth<kLanes>);
  }
  for (; t < count; ++t) {
    multiply_rows<kLanes, 1>(points + t * channels, channels, weights, sums + t * kWidth<kLanes>);
  }
}

/// From sums at the points, `stride` apart and each [count, kWidth], to `outputs` <= kWidth channels of pixels of the
/// result.
template <int kLanes, typename T>
DDPM_INLINE void store_tiles(const WinogradShape& s, const float* sums, int64_t stride, const float* bias,
                             int64_t first, int64_t count, int64_t outputs, T* y) {
  for (int64_t t = 0; t < count; ++t) {
    const TilePlace place = place_of(s, first + t);
    T* const image = y + place.image * s.height * s.width * s.out;
    for (int64_t o = 0; o < outputs; o += kLanes) {
      Floats<kLanes> half[4][6];
      for (int j = 0; j < 6; ++j) {
        Floats<kLanes> m[6], h[4];
        for (int i = 0; i < 6; ++i) m[i] = load<kLanes>(sums + (i * 6 + j) * stride + t * kWidth<kLanes> + o);
        from_points<kLanes>(m, h);
        for (int i = 0; i < 4; ++i) half[i][j] = h[i];
      }
      const Floats<kLanes> constant = load<kLanes>(bias + o);
      for (int i = 0; i < 4 && place.row + i < s.height; ++i) {
        Floats<kLanes> four[4];
        from_points<kLanes>(half[i], four);
        for (int j = 0; j < 4 && place.column + j < s.width; ++j) {
          store<kLanes>(image + ((place.row + i) * s.width + place.column + j) * s.out + o, four[j] + constant);
        }
      }
    }
  }
}

/// Tiles that are best computed together: fewer read the weights too often, more leave the caches.
constexpr int64_t kWinogradBlock = 48;

template <int kLanes>
int64_t winograd_scratch(const WinogradShape& s) {
  return kWinogradPoints * (winograd_stride(kWinogradBlock * s.in) + winograd_stride(kWinogradBlock * kWidth<kLanes>));
}

template <int kLanes, typename T>
void winograd(const WinogradShape& s, const T* x, const float* weights, const float* bias, int64_t outputs,
              int64_t first, int64_t last, T* y, float* scratch) {
  const int64_t of_points = winograd_stride(kWinogradBlock * s.in);
  const int64_t of_sums = winograd_stride(kWinogradBlock * kWidth<kLanes>);
  const int64_t of_weights = winograd_stride(s.in * kWidth<kLanes>);
  float* const points = scratch;
  float* const sums = scratch + kWinogradPoints * of_points;
  for (int64_t begin = first; begin < last; begin += kWinogradBlock) {
    const int64_t count = least(kWinogradBlock, last - begin);
    load_tiles<kLanes, 6>(s, x, s.in, s.in, begin, count, {.width = s.in, .point = of_points, .chunk = 0, .tile = s.in},
                          points);
    const float* part = weights;
    for (int64_t channel = 0; channel < outputs; channel += kWidth<kLanes>) {
      for (int64_t p = 0; p < kWinogradPoints; ++p, part += of_weights) {
        multiply_tiles<kLanes>(points + p * of_points, s.in, count, part, sums + p * of_sums);
      }
      store_tiles<kLanes>(s, sums, of_sums, bias + channel, begin, count, least(kWidth<kLanes>, outputs - channel),
                          y + channel);
    }
  }
}

}  // namespace
}  // namespace ddpm::nn::cpu
