// The update of flat buffers on a device, in three operations that the host need not wait for:
//
//   sum_of_squares_  one pass over the gradients
//   begin_update_    one thread: norm, clipping, loss scale, whether the step applies (optim/update_record.h)
//   flat_update_     one pass over everything else: AdamW, averages, working weights
//
// They are operators of LibTorch's dispatcher, in the namespace "ddpm". libddpm_cuda.so has them for CUDA
// (optim/cuda/update.cu). The CPU's, here, are plain loops over the functions of optim on one thread: what they compute
// is the same, bit for bit.
#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

#include "optim/update_record.h"

namespace ddpm::optim {

/// `sums`, float64 [3], are own_squares, squares and not_finite of an UpdateRecord: of all `buffers` (float32, flat),
/// which `replicas` ranks hold alike. The order of the sum is that of optim::sum_of_squares of each buffer; the
/// buffers' sums are added one after the other.
void sum_of_squares_(at::TensorList buffers, int64_t replicas, const at::Tensor& sums);

/// See decide_update. `record`: float64, at least kRecordSize; `scalars`: float32 [1 + width]; `schedule`: float32
/// [rows, width].
void begin_update_(const at::Tensor& record, const at::Tensor& scalars, const at::Tensor& schedule,
                   const UpdateRules& rules);

/// One float32 tensor per piece in each list, of equal sizes. `averages` holds the pieces of the first average, then
/// those of the next. `working`: bf16 or fp16, or empty where the parameters are the working weights.
struct FlatUpdate {
  at::TensorList parameters;
  at::TensorList gradients;
  at::TensorList exp_avg;
  at::TensorList exp_avg_sq;
  at::TensorList averages;
  at::TensorList working;
};

/// adamw_update of all pieces, then ema_update of all averages, then the working weights rounded to nearest; nothing
/// when `scalars` say so.
void flat_update_(const at::Tensor& scalars, const FlatUpdate& state);

}  // namespace ddpm::optim
