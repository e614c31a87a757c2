// Tensors as what communicators and transfer queues work on.
#pragma once

#include <ATen/core/Tensor.h>

#include "base/check.h"
#include "comm/communicator.h"
#include "parallel/transfer_queue.h"

namespace ddpm::parallel {

/// The elements of a tensor of float64, float32, bf16 or fp16 without gaps, as memory has them. The tensor keeps the
/// memory.
inline comm::Buffer buffer_of(const at::Tensor& run) {
  base::DType dtype = base::DType::f32;
  if (run.scalar_type() == at::kDouble) dtype = base::DType::f64;
  if (run.scalar_type() == at::kBFloat16) dtype = base::DType::bf16;
  if (run.scalar_type() == at::kHalf) dtype = base::DType::f16;
  DDPM_CHECK(run.is_floating_point(), "numbers of type {} are sent as a message", c10::toString(run.scalar_type()));
  return {run.mutable_data_ptr(), run.numel(), dtype};
}

/// The bytes of a tensor without gaps, as a message.
inline comm::ConstBuffer message_of(const at::Tensor& t) {
  return {t.const_data_ptr(), static_cast<int64_t>(t.nbytes()), base::DType::u8};
}
inline comm::Buffer message_into(const at::Tensor& t) {
  return {t.mutable_data_ptr(), static_cast<int64_t>(t.nbytes()), base::DType::u8};
}

/// How transfers of tensors on `device` run beside computation, or not.
inline TransferQueue::Mode queue_mode(bool overlap, const at::Device& device) {
  if (!overlap) return TransferQueue::Mode::blocking;
  return device.is_cpu() ? TransferQueue::Mode::thread : TransferQueue::Mode::stream;
}

}  // namespace ddpm::parallel
