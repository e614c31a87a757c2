// Column sums on CUDA tensors, against ATen on the CPU in float64.
#include <ATen/core/Tensor.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>

#include "nn/golden_case.h"
#include "nn/ops/column_sums.h"

namespace ddpm::nn::test {
namespace {

TEST(ColumnSumsOnGpu, AgreeWithFloat64AndRepeatTheirBits) {
  const at::Device gpu(at::kCUDA, 0);
  for (const auto& [rows, columns] : std::vector<std::pair<int64_t, int64_t>>{
           {131072, 128}, {8192, 64}, {2048, 512}, {128, 1024}, {1'000'003, 3}, {40000, 37}, {1, 8}, {32768, 2048}}) {
    for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kHalf}) {
      const at::Tensor matrix = (at::randn({rows, columns}) + 0.5).to(type);
      const at::Tensor there = matrix.to(gpu);
      const at::Tensor seen = column_sums(there);
      const double tolerance = type == at::kFloat ? 1e-6 : type == at::kHalf ? 1e-3 : 4e-3;
      if (type != at::kHalf || rows < 10000) {  // larger sums are beyond float16
        EXPECT_LT(relative_distance(seen.cpu().to(at::kDouble), matrix.to(at::kDouble).sum(0)), tolerance)
            << rows << " x " << columns << " " << toString(type);
      }
      for (int again = 0; again < 3; ++again) EXPECT_TRUE(at::equal(column_sums(there), seen));
    }
  }
}

}  // namespace
}  // namespace ddpm::nn::test
