// Group normalisation's loops for kLanes lanes: see kernels.h. Part of the files that are compiled per instruction set.
#pragma once

#include "nn/ops/cpu/lanes.h"

namespace ddpm::nn::cpu {
namespace {

/// Calls body(i, count) for each vector of a run of values: count is kLanes, in the last one perhaps less.
template <int kLanes, typename Body>
DDPM_INLINE void for_vectors(int64_t values, Body body) {
  int64_t i = 0;
  for (; i + kLanes <= values; i += kLanes) body(i, int64_t{kLanes});
  if (i < values) body(i, values - i);
}

template <int kLanes, typename T>
void add_values(const T* a, const T* b, int64_t values, T* sum) {
  for_vectors<kLanes>(
      values, [&](int64_t i, int64_t count) __attribute__((always_inline)) {
        store<kLanes>(sum + i, load<kLanes>(a + i, count) + load<kLanes>(b + i, count), count);
      });
}

/// Sums over this many pixels are float32; those are added in float64.
constexpr int64_t kTile = 32;

/// Σ d and Σ d² of d = x - (a value of this tile) over the tile, then moved to the caller's origin in float64, where
/// nothing cancels. One column of kColumn vectors of channels.
template <int kLanes, int kColumn, typename T>
DDPM_INLINE void tile_moments(const T* x, int64_t pixels, int64_t channels, int64_t count, const float* origin,
                              double* sums) {
  Floats<kLanes> first[kColumn];
  Floats<kLanes> sum[kColumn] = {};
  Floats<kLanes> squares[kColumn] = {};
  for (int64_t v = 0; v < kColumn; ++v) first[v] = load<kLanes>(x + v * kLanes, count);
  for (int64_t p = 1; p < pixels; ++p) {
    for (int64_t v = 0; v < kColumn; ++v) {
      const Floats<kLanes> d = load<kLanes>(x + p * channels + v * kLanes, count) - first[v];
      sum[v] += d;
      squares[v] = add_product<kLanes>(squares[v], d, d);
    }
  }
  const auto n = static_cast<double>(pixels);
  for (int64_t v = 0; v < kColumn; ++v) {
    for (int64_t i = 0; i < count; ++i) {
      const int64_t c = v * kLanes + i;
      const double moved = static_cast<double>(first[v][i]) - static_cast<double>(origin[c]);
      const double s = sum[v][i];
      const double s_moved = s + n * moved;
      sums[c] += s_moved;
      sums[channels + c] += squares[v][i] + moved * (s + s_moved);
    }
  }
}

template <int kLanes, typename T>
void moments(const T* x, int64_t pixels, int64_t channels, const float* origin, double* sums) {
  constexpr int kColumn = 4;  // as many chains of additions as the adders are stages deep
  constexpr int64_t kAtOnce = int64_t{kColumn} * kLanes;
  for (int64_t i = 0; i < 2 * channels; ++i) sums[i] = 0.0;
  for (int64_t p = 0; p < pixels; p += kTile) {
    const T* const tile = x + p * channels;
    const int64_t n = least(kTile, pixels - p);
    int64_t c = 0;
    for (; c + kAtOnce <= channels; c += kAtOnce) {
      tile_moments<kLanes, kColumn>(tile + c, n, channels, kLanes, origin + c, sums + c);
    }
    for (; c < channels; c += kLanes) {
      tile_moments<kLanes, 1>(tile + c, n, channels, least(kLanes, channels - c), origin + c, sums + c);
    }
  }
}

/// Adds Σ d and Σ d² of d = x - origin over a tile's pixels to `sums`, in float64 from the first pixel on. One column
/// of kColumn vectors of channels.
template <int kLanes, int kColumn, typename T>
DDPM_INLINE void tile_moments_in_any_order(const T* x, int64_t pixels, int64_t channels, int64_t count,
                                           const float* origin, double* sums) {
  Doubles<kLanes> centre[kColumn];
  Doubles<kLanes> sum[kColumn];
  Doubles<kLanes> squares[kColumn];
  for (int64_t v = 0; v < kColumn; ++v) {
    centre[v] = doubles<kLanes>(load<kLanes>(origin + v * kLanes, count));
    sum[v] = load_doubles<kLanes>(sums + v * kLanes, count);
    squares[v] = load_doubles<kLanes>(sums + channels + v * kLanes, count);
  }
  for (int64_t p = 0; p < pixels; ++p) {
    for (int64_t v = 0; v < kColumn; ++v) {
      const Doubles<kLanes> d = doubles<kLanes>(load<kLanes>(x + p * channels + v * kLanes, count)) - centre[v];
      sum[v] += d;
      squares[v] += d * d;
    }
  }
  for (int64_t v = 0; v < kColumn; ++v) {
    store_doubles<kLanes>(sums + v * kLanes, sum[v], count);
    store_doubles<kLanes>(sums + channels + v * kLanes, squares[v], count);
  }
}

template <int kLanes, typename T>
void moments_in_any_order(const T* x, int64_t pixels, int64_t channels, const float* origin, double* sums) {
  constexpr int kHalf = kLanes / 2;  // a vector of float64 is as wide as one of twice as many floats
  constexpr int kColumn = 4;         // two chains of additions each
  constexpr int64_t kAtOnce = int64_t{kColumn} * kHalf;
  for (int64_t i = 0; i < 2 * channels; ++i) sums[i] = 0.0;
  for (int64_t p = 0; p < pixels; p += kTile) {
    const T* const tile = x + p * channels;
    const int64_t n = least(kTile, pixels - p);
    int64_t c = 0;
    for (; c + kAtOnce <= channels; c += kAtOnce) {
      tile_moments_in_any_order<kHalf, kColumn>(tile + c, n, channels, kHalf, origin + c, sums + c);
    }
    for (; c < channels; c += kHalf) {
      tile_moments_in_any_order<kHalf, 1>(tile + c, n, channels, least(kHalf, channels - c), origin + c, sums + c);
    }
  }
}

/// kColumn vectors of a pixel's channels, from channel c on.
template <int kLanes, int kColumn, bool kSilu, typename T>
DDPM_INLINE void normalise_channels(const T* x, int64_t c, int64_t count, NormCoefficients u, T* y) {
  Floats<kLanes> value[kColumn];
  for (int64_t v = 0; v < kColumn; ++v) {
    const int64_t k = c + v * kLanes;
    const Floats<kLanes> normal = (load<kLanes>(x + k, count) - load<kLanes>(u.centre + k)) * load<kLanes>(u.rstd + k);
    value[v] = add_product<kLanes>(load<kLanes>(u.bias + k), normal, load<kLanes>(u.weight + k));
  }
  if constexpr (kSilu) {
    Floats<kLanes> s[kColumn];
    sigmoid<kLanes>(value, s);
    for (int v = 0; v < kColumn; ++v) value[v] *= s[v];
  }
  for (int64_t v = 0; v < kColumn; ++v) store<kLanes>(y + c + v * kLanes, value[v], count);
}

template <int kLanes, bool kSilu, typename T>
DDPM_INLINE void normalise_rows(const T* x, int64_t pixels, int64_t channels, NormCoefficients u, T* y) {
  constexpr int kColumn = kManyRegisters ? 4 : 2;
  constexpr int64_t kAtOnce = int64_t{kColumn} * kLanes;
  for (int64_t p = 0; p < pixels; ++p, x += channels, y += channels) {
    int64_t c = 0;
    for (; c + kAtOnce <= channels; c += kAtOnce) normalise_channels<kLanes, kColumn, kSilu>(x, c, kLanes, u, y);
    for (; c < channels; c += kLanes) {
      normalise_channels<kLanes, 1, kSilu>(x, c, least(kLanes, channels - c), u, y);
    }
  }
}

template <int kLanes, typename T>
void normalise(const T* x, int64_t pixels, int64_t channels, NormCoefficients u, bool silu, T* y) {
  if (silu) return normalise_rows<kLanes, true>(x, pixels, channels, u, y);
  normalise_rows<kLanes, false>(x, pixels, channels, u, y);
}

template <int kLanes>
DDPM_INLINE void add(double* sums, Floats<kLanes> v, int64_t count) {
  for (int64_t i = 0; i < count; ++i) sums[i] += v[i];
}

/// A column of kColumn vectors of channels, from channel c on, down the pixels of a tile.
template <int kLanes, int kColumn, bool kSilu, typename T>
DDPM_INLINE void tile_gradient_sums(const T* x, const T* dy, int64_t pixels, int64_t channels, int64_t count,
                                    NormCoefficients u, int64_t c, T* du, double* sums) {
  Floats<kLanes> sum_du[kColumn] = {};
  Floats<kLanes> sum_du_normal[kColumn] = {};
  Floats<kLanes> sum_normal[kColumn] = {};
  for (int64_t p = 0; p < pixels; ++p) {
    for (int64_t v = 0; v < kColumn; ++v) {
      const int64_t k = c + v * kLanes;
      const int64_t i = p * channels + k;
      const Floats<kLanes> normal =
          (load<kLanes>(x + i, count) - load<kLanes>(u.centre + k)) * load<kLanes>(u.rstd + k);
      Floats<kLanes> d = load<kLanes>(dy + i, count);
      if constexpr (kSilu) {
        const Floats<kLanes> value[] = {
            add_product<kLanes>(load<kLanes>(u.bias + k), normal, load<kLanes>(u.weight + k))};
        Floats<kLanes> s[1];
        sigmoid<kLanes>(value, s);
        // (u · sigmoid(u))' = s + s · (u - u · s)
        d *= add_product<kLanes>(s[0], s[0], subtract_product<kLanes>(value[0], value[0], s[0]));
      }
      store<kLanes>(du + i, d, count);
      sum_du[v] += d;
      sum_du_normal[v] = add_product<kLanes>(sum_du_normal[v], d, normal);
      sum_normal[v] += normal;
    }
  }
  for (int64_t v = 0; v < kColumn; ++v) {
    add<kLanes>(sums + c + v * kLanes, sum_du[v], count);
    add<kLanes>(sums + channels + c + v * kLanes, sum_du_normal[v], count);
    add<kLanes>(sums + 2 * channels + c + v * kLanes, sum_normal[v], count);
  }
}

template <int kLanes, bool kSilu, typename T>
DDPM_INLINE void gradient_sums_of(const T* x, const T* dy, int64_t pixels, int64_t channels, NormCoefficients u, T* du,
                                  double* sums) {
  // A cache line of float32 at a time: with many channels the lines of a tile do not stay in the first-level cache
  // until the next column.
  constexpr int kColumn = 16 / kLanes;
  constexpr int64_t kAtOnce = int64_t{kColumn} * kLanes;
  for (int64_t i = 0; i < 3 * channels; ++i) sums[i] = 0.0;
  for (int64_t p = 0; p < pixels; p += kTile) {
    const int64_t first = p * channels;
    const int64_t n = least(kTile, pixels - p);
    int64_t c = 0;
    for (; c + kAtOnce <= channels; c += kAtOnce) {
      tile_gradient_sums<kLanes, kColumn, kSilu>(x + first, dy + first, n, channels, kLanes, u, c, du + first, sums);
    }
    for (; c < channels; c += kLanes) {
      const int64_t count = least(kLanes, channels - c);
      tile_gradient_sums<kLanes, 1, kSilu>(x + first, dy + first, n, channels, count, u, c, du + first, sums);
    }
  }
}

template <int kLanes, typename T>
void gradient_sums(const T* x, const T* dy, int64_t pixels, int64_t channels, NormCoefficients u, bool silu, T* du,
                   double* sums) {
  if (silu) return gradient_sums_of<kLanes, true>(x, dy, pixels, channels, u, du, sums);
  gradient_sums_of<kLanes, false>(x, dy, pixels, channels, u, du, sums);
}

template <int kLanes, bool kResidual, typename T>
DDPM_INLINE void input_gradient_rows(const T* x, const T* residual_gradient, int64_t pixels, int64_t channels,
                                     NormGradientCoefficients k, T* dx) {
  for (int64_t p = 0; p < pixels; ++p) {
    for_vectors<kLanes>(
        channels, [&](int64_t c, int64_t count) __attribute__((always_inline)) {
          const int64_t i = p * channels + c;
          const Floats<kLanes> centred = load<kLanes>(x + i, count) - load<kLanes>(k.centre + c);
          const Floats<kLanes> constant = load<kLanes>(k.constant + c);
          const Floats<kLanes> of_x = add_product<kLanes>(constant, centred, load<kLanes>(k.of_x + c));
          Floats<kLanes> d = add_product<kLanes>(of_x, load<kLanes>(dx + i, count), load<kLanes>(k.of_gradient + c));
          if constexpr (kResidual) d += load<kLanes>(residual_gradient + i, count);
          store<kLanes>(dx + i, d, count);
        });
  }
}

template <int kLanes, typename T>
void input_gradient(const T* x, const T* residual_gradient, int64_t pixels, int64_t channels,
                    NormGradientCoefficients k, T* dx) {
  if (residual_gradient != nullptr) {
    return input_gradient_rows<kLanes, true>(x, residual_gradient, pixels, channels, k, dx);
  }
  input_gradient_rows<kLanes, false>(x, residual_gradient, pixels, channels, k, dx);
}

}  // namespace
}  // namespace ddpm::nn::cpu
