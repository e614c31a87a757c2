// The kernels for any processor, with the bits of those that have an instruction for fused products. The instruction is
// computed in float64: see add_product().
#define DDPM_FUSE_IN_DOUBLE
#include "nn/ops/cpu/kernel_table.h"

namespace ddpm::nn::cpu {

constinit const Kernels kBaselineFusedKernels = kernel_table<4>();

}  // namespace ddpm::nn::cpu
