#include "nn/ops/cpu/kernels.h"

#if defined(__x86_64__)
#include <string>

#include <ATen/Context.h>
#include <ATen/Version.h>
#include <ATen/cpu/Utils.h>
#endif

namespace ddpm::nn::cpu {

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

}  // namespace ddpm::nn::cpu
