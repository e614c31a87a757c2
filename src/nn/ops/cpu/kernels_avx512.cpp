#include "nn/ops/cpu/kernel_table.h"

namespace ddpm::nn::cpu {

constinit const Kernels kAvx512Kernels = kernel_table<16>();

}  // namespace ddpm::nn::cpu
