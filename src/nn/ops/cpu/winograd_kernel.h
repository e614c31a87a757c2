// Convolution by Winograd's minimal filtering F(4 x 4, 3 x 3): see nn/ops/winograd.h.
//
// A tile is 4 x 4 pixels of the result and the 6 x 6 of the image that they see. Polynomials of degree 5 stand for rows
// and columns: at 6 points each, 36 in all, the sum over channels is a product of two matrices, tiles by channels and
// channels by channels. A pixel's bits depend on its own tile alone, whatever other tiles are computed with it.
#pragma once

#include "nn/ops/cpu/lanes.h"
#include "nn/ops/cpu/small_products.h"

namespace ddpm::nn::cpu {
namespace {

/// Rows of a product that stay in registers: 12 x 2 sums of AVX-512's 32 registers, 6 x 2 of the 16 of the others.
template <int kLanes>
constexpr int kTileRows = kLanes == 16 ? 12 : 6;

// Powers of u, and all constants below, are float32 numbers.
constexpr auto kUnit1 = static_cast<float>(kWinogradUnit);
constexpr float kUnit2 = kUnit1 * kUnit1;
constexpr float kUnit3 = kUnit2 * kUnit1;
constexpr float kUnit4 = kUnit2 * kUnit2;

/// Bᵀ d along one axis of a tile, for the points 0, ±u, ±2u and ∞: the coefficients of the polynomials of degree 5 that
/// are 0 at all other points, (x² - u²)(x² - 4u²) for 0.
template <int kLanes>
DDPM_INLINE void to_points(const Floats<kLanes>* d, Floats<kLanes>* v) {
  const Floats<kLanes> a = d[4] - 4.0F * kUnit2 * d[2];
  const Floats<kLanes> b = kUnit1 * (d[3] - 4.0F * kUnit2 * d[1]);
  const Floats<kLanes> c = d[4] - kUnit2 * d[2];
  const Floats<kLanes> e = 2.0F * kUnit1 * (d[3] - kUnit2 * d[1]);
  v[0] = 4.0F * kUnit4 * d[0] - 5.0F * kUnit2 * d[2] + d[4];
  v[1] = a + b;
  v[2] = a - b;
  v[3] = c + e;
  v[4] = c - e;
  v[5] = 4.0F * kUnit4 * d[1] - 5.0F * kUnit2 * d[3] + d[5];
}

/// Aᵀ m along one axis: the powers of the points.
template <int kLanes>
DDPM_INLINE void from_points(const Floats<kLanes>* m, Floats<kLanes>* y) {
  const Floats<kLanes> sum1 = m[1] + m[2];
  const Floats<kLanes> difference1 = m[1] - m[2];
  const Floats<kLanes> sum2 = m[3] + m[4];
  const Floats<kLanes> difference2 = m[3] - m[4];
  y[0] = m[0] + sum1 + sum2;
  y[1] = kUnit1 * (difference1 + 2.0F * difference2);
  y[2] = kUnit2 * (sum1 + 4.0F * sum2);
  y[3] = kUnit3 * (difference1 + 8.0F * difference2) + m[5];
}

/// A tile's image, and its first pixel in the result.
struct TilePlace {
  int64_t image;
  int64_t row;
  int64_t column;
};

DDPM_INLINE TilePlace place_of(const WinogradShape& s, int64_t tile) {
  const int64_t columns = (s.width + 3) / 4;
  const int64_t rows = (s.height + 3) / 4;
  return {tile / (rows * columns), tile / columns % rows * 4, tile % columns * 4};
}

/// points [36, block, in]: the image at the points, for `count` tiles from `first` on.
template <int kLanes, typename T>
DDPM_INLINE void load_tiles(const WinogradShape& s, const T* x, int64_t first, int64_t count, int64_t block,
                            float* points) {
  const int64_t shrink = s.repeated ? 1 : 0;
  const int64_t width = s.width >> shrink;
  const int64_t pixels = (s.height >> shrink) * width;
  for (int64_t t = 0; t < count; ++t) {
    const TilePlace place = place_of(s, first + t);
    const T* const image = x + place.image * pixels * s.in;
    for (int64_t c = 0; c < s.in; c += kLanes) {
      Floats<kLanes> half[6][6];
      for (int i = 0; i < 6; ++i) {
        const int64_t row = place.row + i - 1;
        Floats<kLanes> d[6];
        for (int j = 0; j < 6; ++j) {
          const int64_t column = place.column + j - 1;
          const bool inside = row >= 0 && row < s.height && column >= 0 && column < s.width;
          const int64_t pixel = (row >> shrink) * width + (column >> shrink);
          d[j] = inside ? load<kLanes>(image + pixel * s.in + c) : Floats<kLanes>{};
        }
        to_points<kLanes>(d, half[i]);
      }
      for (int j = 0; j < 6; ++j) {
        Floats<kLanes> d[6], v[6];
        for (int i = 0; i < 6; ++i) d[i] = half[i][j];
        to_points<kLanes>(d, v);
        for (int i = 0; i < 6; ++i) store<kLanes>(points + ((i * 6 + j) * block + t) * s.in + c, v[i]);
      }
    }
  }
}

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
  for (; t + kTileRows<kLanes> <= count; t += kTileRows<kLanes>) {
    multiply_rows<kLanes, kTileRows<kLanes>>(points + t * channels, channels, weights, sums + t * kWidth<kLanes>);
  }
  for (; t + kRows <= count; t += kRows) {
    multiply_rows<kLanes, kRows>(points + t * channels, channels, weights, sums + t * kWidth<kLanes>);
  }
  for (; t < count; ++t) {
    multiply_rows<kLanes, 1>(points + t * channels, channels, weights, sums + t * kWidth<kLanes>);
  }
}

/// From sums [36, block, kWidth] at the points to pixels of the result, in channels from `channel` on.
template <int kLanes, typename T>
DDPM_INLINE void store_tiles(const WinogradShape& s, const float* sums, const float* bias, int64_t first, int64_t count,
                             int64_t block, int64_t channel, T* y) {
  for (int64_t t = 0; t < count; ++t) {
    const TilePlace place = place_of(s, first + t);
    T* const image = y + place.image * s.height * s.width * s.out;
    for (int64_t o = 0; o < kWidth<kLanes> && channel + o < s.out; o += kLanes) {
      Floats<kLanes> half[4][6];
      for (int j = 0; j < 6; ++j) {
        Floats<kLanes> m[6], h[4];
        for (int i = 0; i < 6; ++i) m[i] = load<kLanes>(sums + ((i * 6 + j) * block + t) * kWidth<kLanes> + o);
        from_points<kLanes>(m, h);
        for (int i = 0; i < 4; ++i) half[i][j] = h[i];
      }
      const Floats<kLanes> constant = load<kLanes>(bias + channel + o);
      for (int i = 0; i < 4 && place.row + i < s.height; ++i) {
        Floats<kLanes> four[4];
        from_points<kLanes>(half[i], four);
        for (int j = 0; j < 4 && place.column + j < s.width; ++j) {
          store<kLanes>(image + ((place.row + i) * s.width + place.column + j) * s.out + channel + o,
                        four[j] + constant);
        }
      }
    }
  }
}

/// Tiles that are computed together: their points stay in a cache of the second level.
template <int kLanes>
int64_t winograd_block(const WinogradShape& s) {
  constexpr int64_t kBytes = int64_t{400} << 10;
  const int64_t fit = kBytes / (kWinogradPoints * static_cast<int64_t>(sizeof(float)) * s.in);
  return least(fit < kTileRows<kLanes> ? 1 : fit / kTileRows<kLanes>, 4) * kTileRows<kLanes>;
}

template <int kLanes>
int64_t winograd_scratch(const WinogradShape& s) {
  return kWinogradPoints * winograd_block<kLanes>(s) * (s.in + kWidth<kLanes>);
}

/// Tiles `first` to `last` - 1 of all images.
template <int kLanes, typename T>
void winograd(const WinogradShape& s, const T* x, const float* weights, const float* bias, int64_t first, int64_t last,
              T* y, float* scratch) {
  const int64_t block = winograd_block<kLanes>(s);
  float* const points = scratch;
  float* const sums = scratch + kWinogradPoints * block * s.in;
  for (int64_t begin = first; begin < last; begin += block) {
    const int64_t count = least(block, last - begin);
    load_tiles<kLanes>(s, x, begin, count, block, points);
    for (int64_t channel = 0; channel < s.out; channel += kWidth<kLanes>) {
      const float* const part = weights + channel * s.in * kWinogradPoints;
      for (int64_t p = 0; p < kWinogradPoints; ++p) {
        multiply_tiles<kLanes>(points + p * block * s.in, s.in, count, part + p * s.in * kWidth<kLanes>,
                               sums + p * block * kWidth<kLanes>);
      }
      store_tiles<kLanes>(s, sums, bias, begin, count, block, channel, y);
    }
  }
}

}  // namespace
}  // namespace ddpm::nn::cpu
