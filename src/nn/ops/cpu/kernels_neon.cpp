#include "nn/ops/cpu/kernel_table.h"

namespace ddpm::nn::cpu {

constinit const Kernels kNeonKernels = kernel_table<4>();

}  // namespace ddpm::nn::cpu
