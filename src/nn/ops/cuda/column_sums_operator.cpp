// nn/ops/column_sums.h's operator on CUDA tensors.
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include "base/check.h"
#include "nn/ops/cuda/column_sums.h"
#include "nn/ops/cuda/group_norm_tensors.h"

namespace ddpm::nn::cuda {
namespace {

at::Tensor sums(const at::Tensor& rows) {
  DDPM_CHECK(rows.dim() == 2 && rows.is_contiguous(), "rows of {} axes", rows.dim());
  if (rows.numel() == 0) return at::zeros({rows.size(1)}, rows.options());
  const c10::cuda::CUDAGuard guard(rows.device());
  const void* const data = rows.const_data_ptr();
  ColumnSums plan = plan_column_sums(rows.size(0), rows.size(1), element_type(rows), aligned_for_vectors({data}));
  at::Tensor result = at::empty({rows.size(1)}, rows.options());
  at::Tensor of_runs;
  if (plan.runs > 1) of_runs = at::empty({plan.runs, rows.size(1)}, rows.options().dtype(at::kFloat));
  plan.rows = data;
  plan.sums = result.mutable_data_ptr();
  plan.of_runs = of_runs.defined() ? of_runs.mutable_data_ptr<float>() : nullptr;
  start_column_sums(plan, c10::cuda::getCurrentCUDAStream());
  return result;
}

TORCH_LIBRARY_IMPL(ddpm, CUDA, m) { m.impl("column_sums", sums); }

}  // namespace
}  // namespace ddpm::nn::cuda
