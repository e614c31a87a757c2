// Winograd's minimal filtering F(4 x 4, 3 x 3): tiles and weights at its points, and back. See nn/ops/winograd.h.
//
// A tile is 4 x 4 pixels of the result and the 6 x 6 of the image that they see. Polynomials of degree 5 stand for rows
// and columns: at 6 points each, 36 in all, the sum over channels is a product of two matrices, tiles by channels and
// channels by channels.
#pragma once

#include "nn/ops/cpu/lanes.h"

namespace ddpm::nn::cpu {
namespace {

// Powers of u, and all constants below, are float32 numbers.
constexpr auto kUnit1 = static_cast<float>(kWinogradUnit);
constexpr float kUnit2 = kUnit1 * kUnit1;
constexpr float kUnit3 = kUnit2 * kUnit1;
constexpr float kUnit4 = kUnit2 * kUnit2;

/// Bᵀ d along one axis of a tile, for the points 0, ±u, ±2u and ∞: the coefficients of the polynomials of degree 5 that
/// are 0 at all other points, (x² - u²)(x² - 4u²) for 0.
template <int kLanes>
DDPM_INLINE void to_points(const Floats<kLanes>* d, Floats<kLanes>* v) {
  const Floats<kLanes> a = add_product<kLanes>(d[4], -4.0F * kUnit2, d[2]);
  const Floats<kLanes> b = add_product<kLanes>(d[3], -4.0F * kUnit2, d[1]);
  const Floats<kLanes> c = add_product<kLanes>(d[4], -kUnit2, d[2]);
  const Floats<kLanes> e = add_product<kLanes>(d[3], -kUnit2, d[1]);
  v[0] = add_product<kLanes>(add_product<kLanes>(d[4], -5.0F * kUnit2, d[2]), 4.0F * kUnit4, d[0]);
  v[1] = add_product<kLanes>(a, kUnit1, b);
  v[2] = add_product<kLanes>(a, -kUnit1, b);
  v[3] = add_product<kLanes>(c, 2.0F * kUnit1, e);
  v[4] = add_product<kLanes>(c, -2.0F * kUnit1, e);
  v[5] = add_product<kLanes>(add_product<kLanes>(d[5], -5.0F * kUnit2, d[3]), 4.0F * kUnit4, d[1]);
}

/// Aᵀ m along one axis: the powers of the points.
template <int kLanes>
DDPM_INLINE void from_points(const Floats<kLanes>* m, Floats<kLanes>* y) {
  const Floats<kLanes> sum1 = m[1] + m[2];
  const Floats<kLanes> difference1 = m[1] - m[2];
  const Floats<kLanes> sum2 = m[3] + m[4];
  const Floats<kLanes> difference2 = m[3] - m[4];
  y[0] = m[0] + sum1 + sum2;
  y[1] = kUnit1 * add_product<kLanes>(difference1, 2.0F, difference2);
  y[2] = kUnit2 * add_product<kLanes>(sum1, 4.0F, sum2);
  y[3] = add_product<kLanes>(m[5], kUnit3, add_product<kLanes>(difference1, 8.0F, difference2));
}

/// A d along one axis: the transpose of from_points().
template <int kLanes>
DDPM_INLINE void powers_to_points(const Floats<kLanes>* d, Floats<kLanes>* v) {
  const Floats<kLanes> even1 = add_product<kLanes>(d[0], kUnit2, d[2]);
  const Floats<kLanes> odd1 = add_product<kLanes>(d[1], kUnit2, d[3]);
  const Floats<kLanes> even2 = add_product<kLanes>(d[0], 4.0F * kUnit2, d[2]);
  const Floats<kLanes> odd2 = add_product<kLanes>(d[1], 4.0F * kUnit2, d[3]);
  v[0] = d[0];
  v[1] = add_product<kLanes>(even1, kUnit1, odd1);
  v[2] = add_product<kLanes>(even1, -kUnit1, odd1);
  v[3] = add_product<kLanes>(even2, 2.0F * kUnit1, odd2);
  v[4] = add_product<kLanes>(even2, -2.0F * kUnit1, odd2);
  v[5] = d[3];
}

// What the values of a polynomial at a point are divided by: the differences to the other points, but for ∞.
constexpr float kOver0 = 1.0F / (4.0F * kUnit4);
constexpr float kOver1 = -1.0F / (6.0F * kUnit4);
constexpr float kOver2 = 1.0F / (24.0F * kUnit4);

/// G g along one axis: the values of a polynomial with three coefficients at the points.
template <int kLanes>
DDPM_INLINE void weights_to_points(const Floats<kLanes>* g, Floats<kLanes>* v) {
  const Floats<kLanes> even1 = kOver1 * add_product<kLanes>(g[0], kUnit2, g[2]);
  const Floats<kLanes> even2 = kOver2 * add_product<kLanes>(g[0], 4.0F * kUnit2, g[2]);
  v[0] = kOver0 * g[0];
  v[1] = add_product<kLanes>(even1, kOver1 * kUnit1, g[1]);
  v[2] = add_product<kLanes>(even1, -kOver1 * kUnit1, g[1]);
  v[3] = add_product<kLanes>(even2, 2.0F * kOver2 * kUnit1, g[1]);
  v[4] = add_product<kLanes>(even2, -2.0F * kOver2 * kUnit1, g[1]);
  v[5] = g[2];
}

/// Gᵀ m along one axis: the transpose of weights_to_points().
template <int kLanes>
DDPM_INLINE void weights_from_points(const Floats<kLanes>* m, Floats<kLanes>* g) {
  const Floats<kLanes> sum1 = kOver1 * (m[1] + m[2]);
  const Floats<kLanes> sum2 = kOver2 * (m[3] + m[4]);
  g[0] = add_product<kLanes>(sum1 + sum2, kOver0, m[0]);
  g[1] = kUnit1 * add_product<kLanes>(kOver1 * (m[1] - m[2]), 2.0F * kOver2, m[3] - m[4]);
  g[2] = add_product<kLanes>(m[5], kUnit2, add_product<kLanes>(sum1, 4.0F, sum2));
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

/// `channels` of the image at the points, for `count` tiles from `first` on; a pixel has `stride` channels. With
/// kWindow = 4 `x` is a gradient of the result, whose tiles do not overlap.
template <int kLanes, int kWindow, typename T>
DDPM_INLINE void load_tiles(const WinogradShape& s, const T* x, int64_t stride, int64_t channels, int64_t first,
                            int64_t count, const WinogradOrder& order, float* points) {
  constexpr int64_t kBefore = kWindow == 6 ? 1 : 0;
  const int64_t shrink = kWindow == 6 && s.repeated ? 1 : 0;
  const int64_t width = s.width >> shrink;
  const int64_t pixels = (s.height >> shrink) * width;
  const auto along_axis = [](const Floats<kLanes>* d, Floats<kLanes>* v) {
    if constexpr (kWindow == 6) {
      to_points<kLanes>(d, v);
    } else {
      powers_to_points<kLanes>(d, v);
    }
  };
  for (int64_t t = 0; t < count; ++t) {
    const TilePlace place = place_of(s, first + t);
    const T* const image = x + place.image * pixels * stride;
    for (int64_t c = 0; c < channels; c += kLanes) {
      Floats<kLanes> half[kWindow][6];
      for (int i = 0; i < kWindow; ++i) {
        const int64_t row = place.row + i - kBefore;
        Floats<kLanes> d[kWindow];
        for (int j = 0; j < kWindow; ++j) {
          const int64_t column = place.column + j - kBefore;
          const bool inside = row >= 0 && row < s.height && column >= 0 && column < s.width;
          const int64_t pixel = (row >> shrink) * width + (column >> shrink);
          d[j] = inside ? load<kLanes>(image + pixel * stride + c) : Floats<kLanes>{};
        }
        along_axis(d, half[i]);
      }
      float* const to = points + c / order.width * order.chunk + t * order.tile + c % order.width;
      for (int j = 0; j < 6; ++j) {
        Floats<kLanes> d[kWindow], v[6];
        for (int i = 0; i < kWindow; ++i) d[i] = half[i][j];
        along_axis(d, v);
        for (int i = 0; i < 6; ++i) store<kLanes>(to + (i * 6 + j) * order.point, v[i]);
      }
    }
  }
}

}  // namespace
}  // namespace ddpm::nn::cpu
