// Measures the best that the machine can do, with which a step and a reader are compared.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>

#include "comm/communicator.h"

namespace ddpm::bench {

/// Products in `dtype`, or in float32 where the model computes those in float32 (nn/ops/float_products.h). Of all ranks
/// together, each on `device` with its threads, all at the same time.
struct MachineLimits {
  /// Per second, 2 per multiply-add: the best of LibTorch's large matrix products and 3 x 3 convolutions, for which it
  /// has different libraries (on CPUs MKL and oneDNN). Winograd's convolutions (nn/ops/winograd.h) may exceed it.
  double matrix_flops = 0.0;
  /// Read and written: the best of passes in place, copies and reads over as many bytes as the update of a step
  /// touches.
  double memory_bytes_per_second = 0.0;
};

/// Returns standard normals, equal at each call, that repeat after 2^20 elements. Products are timed with them, since a
/// GPU multiplies ones and zeros, where few bits change, faster than the numbers of a model.
at::Tensor normal_values(at::IntArrayRef shape, const at::TensorOptions& options);

/// `state_bytes`: of one rank, what an update touches. About three seconds. Collective.
MachineLimits measure_limits(c10::Device device, c10::ScalarType dtype, comm::Communicator& world, int64_t state_bytes);

}  // namespace ddpm::bench
