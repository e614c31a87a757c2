// Products of small float32 matrices, and how a head's rows get into and out of scratch memory.
//
// A block of rows by vectors of each product stays in registers while its sums run. Numbers of the left factor are read
// one at a time and broadcast, so it may lie in any order; the right factor is read in vectors.
#pragma once

#include "nn/ops/cpu/lanes.h"

namespace ddpm::nn::cpu {
namespace {

// 4 x 2 sums: enough to keep two multipliers of four stages busy, and with their operands at most 16 registers.
constexpr int kRows = 4;
constexpr int kVectors = 2;

template <int kLanes>
constexpr int64_t kWidth = int64_t{kLanes} * kVectors;

/// Rows of a product that stay in registers: 12 x 2 sums of 32 registers, 6 x 2 of 16.
constexpr int kTileRows = kManyRegisters ? 12 : 6;

DDPM_INLINE int64_t rounded_up(int64_t n, int64_t multiple) { return (n + multiple - 1) / multiple * multiple; }

/// log2(e) / √size: with it, scores are logarithms to the base 2.
DDPM_INLINE float log2e_over_root(int64_t size) {
  return static_cast<float>(0x1.71547652b82fep0 / __builtin_sqrt(static_cast<double>(size)));
}

template <int kLanes, int kBlockRows = kRows, int kColumns = kVectors>
struct Block {
  Floats<kLanes> at[kBlockRows][kColumns];
};

/// Element (r, t) is at values[r * row + t * step].
struct Left {
  const float* values;
  int64_t row;
  int64_t step;
};

/// block[r] += Σ_t left(r, t) · right[t] for t < count; rows of the right factor are `width` apart.
template <int kLanes, int kBlockRows, int kColumns>
DDPM_INLINE void multiply_add(Block<kLanes, kBlockRows, kColumns>& block, Left left, const float* right, int64_t width,
                              int64_t count) {
  for (int64_t t = 0; t < count; ++t) {
    Floats<kLanes> vectors[kColumns];
    for (int64_t v = 0; v < kColumns; ++v) vectors[v] = load<kLanes>(right + t * width + v * kLanes);
    for (int r = 0; r < kBlockRows; ++r) {
      const Floats<kLanes> number = broadcast<kLanes>(left.values[r * left.row + t * left.step]);
      for (int64_t v = 0; v < kColumns; ++v) block.at[r][v] = add_product<kLanes>(block.at[r][v], number, vectors[v]);
    }
  }
}

template <int kLanes, int kBlockRows = kRows, int kColumns = kVectors>
DDPM_INLINE Block<kLanes, kBlockRows, kColumns> load_block(const float* from, int64_t width) {
  Block<kLanes, kBlockRows, kColumns> block;
  for (int r = 0; r < kBlockRows; ++r) {
    for (int64_t v = 0; v < kColumns; ++v) block.at[r][v] = load<kLanes>(from + r * width + v * kLanes);
  }
  return block;
}

template <int kLanes, int kBlockRows, int kColumns>
DDPM_INLINE void store_block(float* to, const Block<kLanes, kBlockRows, kColumns>& block, int64_t width) {
  for (int r = 0; r < kBlockRows; ++r) {
    for (int64_t v = 0; v < kColumns; ++v) store<kLanes>(to + r * width + v * kLanes, block.at[r][v]);
  }
}

DDPM_INLINE float to_float(float value) { return value; }
DDPM_INLINE float to_float(BFloat16 value) { return __builtin_bit_cast(float, uint32_t{value.bits} << 16); }
DDPM_INLINE void from_float(float value, float* to) { *to = value; }
DDPM_INLINE void from_float(float value, BFloat16* to) {
  BFloat16 lanes[4];
  store<4>(lanes, Floats<4>{value});
  *to = lanes[0];
}

/// to[i][c] = factor · from[i][c]: rows of `size` floats side by side.
template <typename T>
DDPM_INLINE void pack(const T* from, int64_t stride, int64_t rows, int64_t size, float factor, float* to) {
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t c = 0; c < size; ++c) to[i * size + c] = factor * to_float(from[i * stride + c]);
  }
}

/// to[c][i] = factor · from[i][c] for i < rows, zero from there up to `width`.
template <typename T>
DDPM_INLINE void pack_transposed(const T* from, int64_t stride, int64_t rows, int64_t size, float factor, int64_t width,
                                 float* to) {
  for (int64_t c = 0; c < size; ++c) {
    for (int64_t i = 0; i < rows; ++i) to[c * width + i] = factor * to_float(from[i * stride + c]);
    for (int64_t i = rows; i < width; ++i) to[c * width + i] = 0.0F;
  }
}

/// to[i][c] = factor · from[i][c]
template <typename T>
DDPM_INLINE void unpack(const float* from, int64_t rows, int64_t size, float factor, T* to, int64_t stride) {
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t c = 0; c < size; ++c) from_float(factor * from[i * size + c], to + i * stride + c);
  }
}

/// to[i][c] = factor · from[c][i] for i < rows.
template <typename T>
DDPM_INLINE void unpack_transposed(const float* from, int64_t width, int64_t rows, int64_t size, float factor, T* to,
                                   int64_t stride) {
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t c = 0; c < size; ++c) from_float(factor * from[c * width + i], to + i * stride + c);
  }
}

/// Cuts scratch memory into pieces that keep vectors aligned; without memory it only counts.
class Pieces {
 public:
  explicit Pieces(float* memory) : memory_(memory) {}

  float* take(int64_t floats) {
    float* const piece = memory_ == nullptr ? nullptr : memory_ + taken_;
    taken_ += rounded_up(floats, 16);
    return piece;
  }
  [[nodiscard]] int64_t taken() const { return taken_; }

 private:
  float* memory_;
  int64_t taken_ = 0;
};

}  // namespace
}  // namespace ddpm::nn::cpu
