#include "nn/ops/cpu/kernels.h"

#include <string>

#include <ATen/Version.h>

namespace ddpm::nn::cpu {

const Kernels& kernels() {
#if defined(__x86_64__)
  static const std::string capability = at::get_cpu_capability();
  if (capability == "AVX512") return kAvx512Kernels;
  if (capability == "AVX2") return kAvx2Kernels;
#endif
  return kBaselineKernels;
}

}  // namespace ddpm::nn::cpu
