// Philox 4x32-10, the bare function, for the code that vectorises it and for CUDA kernels (constexpr: nvcc compiles it
// for both). See base/random.h for what the counter means.
//
// Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3", SC 2011, table 2 for the constants.
#pragma once

#include <cstdint>

namespace ddpm::base {

struct PhiloxWords {
  uint32_t w0, w1, w2, w3;
};

/// Replaces a counter by its four random words.
[[gnu::always_inline]] constexpr void philox_rounds(uint64_t key, PhiloxWords& x) {
  constexpr uint32_t kMultiplier0 = 0xD2511F53U;
  constexpr uint32_t kMultiplier1 = 0xCD9E8D57U;
  constexpr uint32_t kWeyl0 = 0x9E3779B9U;  // golden ratio
  constexpr uint32_t kWeyl1 = 0xBB67AE85U;  // sqrt(3) - 1
  constexpr int kRounds = 10;
  auto key0 = static_cast<uint32_t>(key);
  auto key1 = static_cast<uint32_t>(key >> 32U);
  for (int round = 0; round < kRounds; ++round, key0 += kWeyl0, key1 += kWeyl1) {
    const uint64_t product0 = uint64_t{kMultiplier0} * x.w0;
    const uint64_t product1 = uint64_t{kMultiplier1} * x.w2;
    x = {static_cast<uint32_t>(product1 >> 32U) ^ x.w1 ^ key0, static_cast<uint32_t>(product1),
         static_cast<uint32_t>(product0 >> 32U) ^ x.w3 ^ key1, static_cast<uint32_t>(product0)};
  }
}

}  // namespace ddpm::base
