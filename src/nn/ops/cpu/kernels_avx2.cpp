#include "nn/ops/cpu/kernel_table.h"

namespace ddpm::nn::cpu {

constinit const Kernels kAvx2Kernels = kernel_table<8>();

}  // namespace ddpm::nn::cpu
