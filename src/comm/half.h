// Element-wise reductions of 16-bit floating-point numbers, which MPI has no operations for.
#pragma once

#include <cstdint>
#include <span>

#include "comm/communicator.h"

namespace ddpm::comm {

/// IEEE 754 binary16 and bfloat16 as bit patterns. Conversions to 16 bits round to nearest, ties to even; overflow
/// gives infinity, a NaN stays a (quiet) NaN.
float float_from_f16(uint16_t bits);
float float_from_bf16(uint16_t bits);
uint16_t f16_from_float(float value);
uint16_t bf16_from_float(float value);

/// in_out[i] = op(in[i], in_out[i]), computed in float32 and rounded once. `dtype` is f16 or bf16. Sizes are equal.
void reduce_half(base::DType dtype, ReduceOp op, std::span<const uint16_t> in, std::span<uint16_t> in_out);

}  // namespace ddpm::comm
