// The weights of a convolution at Winograd's points, and their gradient: see nn/ops/winograd.h.
#pragma once

#include "nn/ops/cpu/lanes.h"
#include "nn/ops/cpu/small_products.h"
#include "nn/ops/cpu/winograd_points.h"

namespace ddpm::nn::cpu {
namespace {

// Weights lie in channels-last order. They are transformed for as many channels and outputs at a time as a vector
// holds, but for no more than eight.
template <int kLanes>
constexpr int kSide = kLanes < kWinogradTogether ? kLanes : kWinogradTogether;

/// Rows of 4 x 4 numbers become columns.
DDPM_INLINE void transpose(Floats<4>* m) {
  Floats<4> pairs[4];
  for (int i = 0; i < 4; i += 2) {
    pairs[i] = __builtin_shufflevector(m[i], m[i + 1], 0, 4, 1, 5);
    pairs[i + 1] = __builtin_shufflevector(m[i], m[i + 1], 2, 6, 3, 7);
  }
  for (int64_t k = 0; k < 2; ++k) {
    m[2 * k] = __builtin_shufflevector(pairs[k], pairs[k + 2], 0, 1, 4, 5);
    m[2 * k + 1] = __builtin_shufflevector(pairs[k], pairs[k + 2], 2, 3, 6, 7);
  }
}

/// Rows of 8 x 8 numbers become columns.
DDPM_INLINE void transpose(Floats<8>* m) {
  Floats<8> pairs[8], fours[8];
  for (int i = 0; i < 8; i += 2) {
    pairs[i] = __builtin_shufflevector(m[i], m[i + 1], 0, 8, 1, 9, 4, 12, 5, 13);
    pairs[i + 1] = __builtin_shufflevector(m[i], m[i + 1], 2, 10, 3, 11, 6, 14, 7, 15);
  }
  for (int i = 0; i < 8; i += 4) {
    for (int k = 0; k < 2; ++k) {
      fours[i + 2 * k] = __builtin_shufflevector(pairs[i + k], pairs[i + k + 2], 0, 1, 8, 9, 4, 5, 12, 13);
      fours[i + 2 * k + 1] = __builtin_shufflevector(pairs[i + k], pairs[i + k + 2], 2, 3, 10, 11, 6, 7, 14, 15);
    }
  }
  for (int k = 0; k < 4; ++k) {
    m[k] = __builtin_shufflevector(fours[k], fours[k + 4], 0, 1, 2, 3, 8, 9, 10, 11);
    m[k + 4] = __builtin_shufflevector(fours[k], fours[k + 4], 4, 5, 6, 7, 12, 13, 14, 15);
  }
}

/// Kernels at the points, which are `stride` apart. Tap (i, j) of all lanes is taps[3 * i + j].
template <int kLanes>
DDPM_INLINE void store_kernels(const Floats<kLanes>* taps, int64_t stride, float* points) {
  Floats<kLanes> half[3][6];
  for (int i = 0; i < 3; ++i) weights_to_points<kLanes>(taps + 3 * i, half[i]);
  for (int j = 0; j < 6; ++j) {
    Floats<kLanes> g[3], v[6];
    for (int i = 0; i < 3; ++i) g[i] = half[i][j];
    weights_to_points<kLanes>(g, v);
    for (int i = 0; i < 6; ++i) store<kLanes>(points + (i * 6 + j) * stride, v[i]);
  }
}

/// The transpose of store_kernels().
template <int kLanes>
DDPM_INLINE void load_kernels(const float* points, int64_t stride, Floats<kLanes>* taps) {
  Floats<kLanes> half[3][6];
  for (int j = 0; j < 6; ++j) {
    Floats<kLanes> m[6], g[3];
    for (int i = 0; i < 6; ++i) m[i] = load<kLanes>(points + (i * 6 + j) * stride);
    weights_from_points<kLanes>(m, g);
    for (int i = 0; i < 3; ++i) half[i][j] = g[i];
  }
  for (int i = 0; i < 3; ++i) weights_from_points<kLanes>(half[i], taps + 3 * i);
}

template <int kLanes>
DDPM_INLINE void fill_up(int64_t from, int64_t stride, float* points) {
  constexpr int kAtOnce = kSide<kLanes>;
  for (int64_t o = from; o < kWidth<kLanes>; o += kAtOnce) {
    for (int64_t p = 0; p < kWinogradPoints; ++p) store<kAtOnce>(points + p * stride + o, Floats<kAtOnce>{});
  }
}

template <int kLanes>
void winograd_weight_points(const float* weight, int64_t channels, int64_t outputs, int64_t stride, float* points) {
  constexpr int kAtOnce = kSide<kLanes>;
  for (int64_t o = 0; o < outputs; o += kAtOnce) {
    for (int64_t first = 0; first < kWinogradTogether; first += kAtOnce) {
      Floats<kAtOnce> of_channel[kAtOnce][kWinogradTaps];
      for (int64_t tap = 0; tap < kWinogradTaps; ++tap) {
        Floats<kAtOnce> m[kAtOnce];
        for (int64_t r = 0; r < kAtOnce; ++r) {
          m[r] = load<kAtOnce>(weight + ((o + r) * kWinogradTaps + tap) * channels + first);
        }
        transpose(m);
        for (int c = 0; c < kAtOnce; ++c) of_channel[c][tap] = m[c];
      }
      for (int64_t c = 0; c < kAtOnce; ++c) {
        store_kernels<kAtOnce>(of_channel[c], stride, points + (first + c) * kWidth<kLanes> + o);
      }
    }
  }
  for (int64_t c = 0; c < kWinogradTogether; ++c) fill_up<kLanes>(outputs, stride, points + c * kWidth<kLanes>);
}

template <int kLanes>
void winograd_turned_points(const float* weight, int64_t channels, int64_t outputs, int64_t stride, float* points) {
  constexpr int kAtOnce = kSide<kLanes>;
  for (int64_t o = 0; o < outputs; o += kAtOnce) {
    Floats<kAtOnce> taps[kWinogradTaps];
    for (int64_t tap = 0; tap < kWinogradTaps; ++tap) {
      taps[kWinogradTaps - 1 - tap] = load<kAtOnce>(weight + tap * channels + o);
    }
    store_kernels<kAtOnce>(taps, stride, points + o);
  }
  fill_up<kLanes>(outputs, stride, points);
}

template <int kLanes>
void winograd_weight_gradient(const float* points, int64_t next, int64_t stride, int64_t channels, int64_t outputs,
                              float* gradient) {
  constexpr int kAtOnce = kSide<kLanes>;
  for (int64_t o = 0; o < outputs; o += kAtOnce) {
    for (int64_t first = 0; first < kWinogradTogether; first += kAtOnce) {
      Floats<kAtOnce> of_channel[kAtOnce][kWinogradTaps];
      for (int64_t c = 0; c < kAtOnce; ++c) {
        load_kernels<kAtOnce>(points + (first + c) * next + o, stride, of_channel[c]);
      }
      for (int64_t tap = 0; tap < kWinogradTaps; ++tap) {
        Floats<kAtOnce> m[kAtOnce];
        for (int c = 0; c < kAtOnce; ++c) m[c] = of_channel[c][tap];
        transpose(m);
        for (int64_t r = 0; r < kAtOnce; ++r) {
          store<kAtOnce>(gradient + ((o + r) * kWinogradTaps + tap) * channels + first, m[r]);
        }
      }
    }
  }
}

template <int kLanes, int kRowsNow>
DDPM_INLINE void add_rows(const float* image, const float* gradient, int64_t count, int64_t stride, float* sums) {
  auto block = load_block<kLanes, kRowsNow, kVectors>(sums, stride);
  multiply_add<kLanes, kRowsNow, kVectors>(block, {image, 1, kWinogradChannels}, gradient, kWidth<kLanes>, count);
  store_block<kLanes, kRowsNow, kVectors>(sums, block, stride);
}

template <int kLanes>
void winograd_add_products(const float* image, int64_t chunk, int64_t channels, const float* gradient, int64_t count,
                           int64_t stride, float* sums) {
  for (int64_t c = 0; c < channels; c += kWinogradChannels, image += chunk) {
    float* const to = sums + c * stride;
    int64_t r = 0;
    for (; r + kTileRows <= kWinogradChannels; r += kTileRows) {
      add_rows<kLanes, kTileRows>(image + r, gradient, count, stride, to + r * stride);
    }
    for (; r < kWinogradChannels; r += kRows) {
      add_rows<kLanes, kRows>(image + r, gradient, count, stride, to + r * stride);
    }
  }
}

template <int kLanes, typename T>
void winograd_image_points(const WinogradShape& s, const T* x, int64_t first, int64_t count, const WinogradOrder& order,
                           float* points) {
  load_tiles<kLanes, 6>(s, x, s.in, s.in, first, count, order, points);
}

template <int kLanes, typename T>
void winograd_gradient_points(const WinogradShape& s, const T* dy, int64_t outputs, int64_t first, int64_t count,
                              const WinogradOrder& order, float* points) {
  load_tiles<kLanes, 4>(s, dy, s.out, outputs, first, count, order, points);
}

}  // namespace
}  // namespace ddpm::nn::cpu
