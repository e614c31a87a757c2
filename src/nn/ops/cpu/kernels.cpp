#include "nn/ops/cpu/kernels.h"

#include <string>

#include <ATen/Version.h>

namespace ddpm::nn::cpu {

const Kernels& kernels() {
#if defined(__x86_64__)
  static const std::string kCapability = at::get_cpu_capability();
  if (kCapability == "AVX512") return kAvx512Kernels;
  if (kCapability == "AVX2") return kAvx2Kernels;
#endif
  return kBaselineKernels;
}

}  // namespace ddpm::nn::cpu
