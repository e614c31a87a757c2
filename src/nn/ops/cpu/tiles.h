// Registers of tiles (Intel's AMX), whose products of bfloat16 values are summed in float32, and vectors beside them.
//
// A tile has 16 rows of 64 bytes: 16 sums, or 32 values of bfloat16 in a row. The numbers of the eight registers are
// part of instructions, for which names will not do.
#pragma once

#include "nn/ops/cpu/lanes.h"

namespace ddpm::nn::cpu {
namespace {

constexpr int64_t kSide = 16;      ///< rows of a tile, and its columns of 32 bits
constexpr int64_t kDepth = 32;     ///< bfloat16 values in a row of a tile
constexpr int64_t kRowBytes = 64;  ///< bytes in a row of a tile
constexpr int kTileRegisters = 8;

using Vector = Floats<kSide>;

/// Keeps what is read and written in memory on its side of this place: gcc 12's intrinsics for tiles do not tell the
/// compiler that they read and write it.
DDPM_INLINE void order_memory() { asm volatile("" ::: "memory"); }

/// The rows of each register and their bytes, as LDTILECFG reads them (Intel: "Architecture Instruction Set Extensions
/// and Future Features", 2023). They are whole at first.
struct alignas(64) TileShapes {
  TileShapes() {
    for (int tile = 0; tile < kTileRegisters; ++tile) {
      bytes[tile] = static_cast<uint16_t>(kRowBytes);
      rows[tile] = static_cast<uint8_t>(kSide);
    }
  }

  uint8_t palette = 1;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t bytes[16] = {};
  uint8_t rows[16] = {};
};

/// The shapes of this thread's tiles while it lives.
class TileRegisters {
 public:
  explicit TileRegisters(const TileShapes& shapes) {
    order_memory();
    _tile_storeconfig(&before_);
    _tile_loadconfig(&shapes);
  }
  ~TileRegisters() {
    order_memory();
    _tile_loadconfig(&before_);
  }
  TileRegisters(const TileRegisters&) = delete;
  TileRegisters& operator=(const TileRegisters&) = delete;

 private:
  TileShapes before_;  ///< those of LibTorch's products, or none
};

struct alignas(64) Lanes {
  uint32_t at[kSide];
};

constexpr Lanes lanes(uint32_t first, uint32_t step) {
  Lanes lanes{};
  for (uint32_t i = 0; i < kSide; ++i) lanes.at[i] = first + i * step;
  return lanes;
}

/// a, then b, in bfloat16.
DDPM_INLINE __m512i rounded(Vector a, Vector b) { return (__m512i)_mm512_cvtne2ps_pbh(b, a); }

/// Lane i: a_i and b_i in bfloat16, a_i first.
DDPM_INLINE __m512i rounded_pairs(Vector a, Vector b) {
  static constexpr Lanes kTurns = lanes(16U << 16, (1U << 16) + 1);  // numbers i and 16 + i of 32
  return _mm512_permutexvar_epi16(_mm512_load_si512(&kTurns), rounded(a, b));
}

}  // namespace
}  // namespace ddpm::nn::cpu
