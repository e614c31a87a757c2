#include "nn/ops/cpu/kernel_table.h"

namespace ddpm::nn::cpu {

constinit const Kernels avx512_kernels = kernel_table<16>();

}  // namespace ddpm::nn::cpu
