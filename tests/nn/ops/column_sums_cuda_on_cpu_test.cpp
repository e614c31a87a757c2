// The CUDA kernels of column sums, run on the CPU with the grids that a GPU would be given, against ATen in float64.
//
// What stands for CUDA comes before the kernels.
// clang-format off
#include "support/cuda_on_cpu.h"
#include "nn/ops/cuda/column_sums.cuh"
// clang-format on
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>

#include "nn/golden_case.h"
#include "nn/ops/cuda/group_norm_tensors.h"

namespace ddpm::nn::test {
namespace {

using ddpm::test::cuda::OnCpu;

/// Sums as the operator does on a GPU. `runs`: of how many the sum was made.
at::Tensor by_kernels(const at::Tensor& rows, int* runs) {
  const bool aligned = reinterpret_cast<std::uintptr_t>(rows.const_data_ptr()) % 16 == 0;
  cuda::ColumnSums plan = cuda::plan_column_sums(rows.size(0), rows.size(1), cuda::element_type(rows), aligned);
  at::Tensor sums = at::full({rows.size(1)}, std::nan(""), rows.options());
  const at::Tensor of_runs = at::full({plan.runs, rows.size(1)}, std::nan(""), rows.options().dtype(at::kFloat));
  plan.rows = rows.const_data_ptr();
  plan.sums = sums.mutable_data_ptr();
  plan.of_runs = plan.runs > 1 ? of_runs.mutable_data_ptr<float>() : nullptr;
  cuda::column_sums(plan, OnCpu{});
  *runs = plan.runs;
  return sums;
}

TEST(ColumnSumsKernels, AgreeWithFloat64) {
  bool one = false;
  bool several = false;
  const std::vector<std::pair<int64_t, int64_t>> sizes = {{1, 1},    {3, 7},     {64, 64},   {700, 128},  {2050, 8},
                                                          {90, 520}, {513, 37},  {40, 1032}, {5000, 24},  {129, 1024},
                                                          {20, 96},  {70000, 8}, {33, 516},  {4100, 264}, {6, 2049}};
  for (const auto& [rows, columns] : sizes) {
    for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kHalf}) {
      for (const int64_t offset : {0, 1}) {
        const at::Tensor memory = at::randn({rows * columns + offset}).to(type);
        const at::Tensor matrix = memory.narrow(0, offset, rows * columns).view({rows, columns});
        int runs = 0;
        const at::Tensor seen = by_kernels(matrix, &runs);
        (runs == 1 ? one : several) = true;
        const at::Tensor wanted = matrix.to(at::kDouble).sum(0);
        // Sums of normal numbers are as large as the root of their count.
        const double scale = std::sqrt(static_cast<double>(rows));
        const double step = type == at::kFloat ? 1e-6 : type == at::kHalf ? 1e-3 : 8e-3;
        EXPECT_LT((seen.to(at::kDouble) - wanted).abs().max().item<double>(), 4 * scale * step)
            << rows << " x " << columns << " " << toString(type) << " at " << offset;
      }
    }
  }
  EXPECT_TRUE(one && several);
}

}  // namespace
}  // namespace ddpm::nn::test
