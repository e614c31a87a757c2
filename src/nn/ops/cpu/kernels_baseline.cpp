#include "nn/ops/cpu/kernel_table.h"

namespace ddpm::nn::cpu {

constinit const Kernels baseline_kernels = kernel_table<4>();

}  // namespace ddpm::nn::cpu
