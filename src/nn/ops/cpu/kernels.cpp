#include "nn/ops/cpu/kernels.h"

#if defined(__x86_64__)
#include <string>

#include <ATen/Context.h>
#include <ATen/Version.h>
#include <ATen/cpu/Utils.h>
#include <cpuid.h>
#endif

namespace ddpm::nn::cpu {

#if defined(__x86_64__)
namespace {

/// Whether the processor has what the kernels of tiles are compiled for beside AVX-512 and tiles: products of tiles of
/// bfloat16, and conversions to it.
bool has_bfloat16_instructions() {
  constexpr unsigned kFeatures = 7;
  constexpr unsigned kAmxBf16 = 1U << 22;    // of edx (Intel: "Software developer's manual", CPUID)
  constexpr unsigned kAvx512Bf16 = 1U << 5;  // of eax in the second part
  unsigned eax = 0;
  unsigned ebx = 0;
  unsigned ecx = 0;
  unsigned edx = 0;
  if (__get_cpuid_count(kFeatures, 0, &eax, &ebx, &ecx, &edx) == 0 || (edx & kAmxBf16) == 0) return false;
  return __get_cpuid_count(kFeatures, 1, &eax, &ebx, &ecx, &edx) != 0 && (eax & kAvx512Bf16) != 0;
}

}  // namespace
#endif

const Kernels& kernels() {
#if defined(__x86_64__)
  static const std::string kCapability = at::get_cpu_capability();
  if (kCapability == "AVX512") return kAvx512Kernels;
  if (kCapability == "AVX2") return kAvx2Kernels;
  return at::globalContext().deterministicAlgorithms() ? kBaselineFusedKernels : kBaselineKernels;
#elif defined(__aarch64__)
  return kNeonKernels;
#else
  return kBaselineKernels;
#endif
}

bool multiplies_bfloat16_tiles() {
#if defined(__x86_64__)
  static const bool kTiles = &kernels() == &kAvx512Kernels && at::cpu::init_amx();
  return kTiles;
#else
  return false;
#endif
}

const TileKernels* tile_kernels() {
#if defined(__x86_64__)
  static const bool kServes = multiplies_bfloat16_tiles() && has_bfloat16_instructions();
  static const TileKernels kKernels{.attention = kTileAttention, .convolution = kTileConvolution};
  return kServes ? &kKernels : nullptr;
#else
  return nullptr;
#endif
}

}  // namespace ddpm::nn::cpu
