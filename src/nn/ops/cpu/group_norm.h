// Group normalisation, modulation and SiLU on the CPU in two passes over the data, forward and backward: the CPU's
// implementation of the operators in nn/ops/group_norm_operator.h, which this library registers.
//
// Statistics and arithmetic are float32 (sums over more than some pixels float64). All sums are taken in an order that
// follows from the shape alone, so any number of threads gives the same bits.
#pragma once

#include <c10/core/ScalarType.h>

namespace ddpm::nn::cpu {

/// Whether the CPU has kernels for images of this dtype.
bool has_group_norm(at::ScalarType dtype);

}  // namespace ddpm::nn::cpu
