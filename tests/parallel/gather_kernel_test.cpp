// The CUDA kernel that moves gradients, run on the CPU with the grids that a GPU would be given, against ATen's copies
// and additions, bit for bit.
//
// What stands for CUDA comes before the kernel.
// clang-format off
#include "support/cuda_on_cpu.h"
#include "parallel/cuda/gather_kernel.cuh"
// clang-format on
#include <ATen/core/Tensor.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>

#include "parallel/gather.h"

namespace ddpm::parallel::test {
namespace {

using cuda::GatherType;

GatherType type_of(const at::Tensor& t) {
  return t.scalar_type() == at::kFloat      ? GatherType::float32
         : t.scalar_type() == at::kBFloat16 ? GatherType::bfloat16
                                            : GatherType::float16;
}

/// Gathers as the operator does on a GPU; the number of launches.
std::size_t by_kernel(at::TensorList into, at::TensorList from, bool add) {
  std::vector<cuda::GatherPiece> pieces;
  std::vector<GatherType> types;
  for (std::size_t i = 0; i < into.size(); ++i) {
    pieces.push_back({from[i].const_data_ptr(), into[i].mutable_data_ptr<float>(), into[i].numel()});
    types.push_back(type_of(from[i]));
  }
  const auto batches = cuda::gather_batches(pieces, types, add);
  for (const cuda::GatherBatch& batch : batches) {
    ddpm::test::cuda::launch(static_cast<unsigned>(batch.chunks), cuda::kGatherThreads,
                             [&] { cuda::gather_kernel(batch); });
  }
  return batches.size();
}

std::vector<at::Tensor> pieces_of(const at::Tensor& flat, const std::vector<int64_t>& sizes) {
  std::vector<at::Tensor> pieces;
  int64_t begin = 0;
  for (const int64_t size : sizes) {
    pieces.push_back(flat.narrow(0, begin, size));
    begin += size;
  }
  return pieces;
}

void expect_moved(const std::vector<int64_t>& sizes, std::size_t launches) {
  int64_t all = 0;
  for (const int64_t size : sizes) all += size;
  const at::Tensor seen = at::randn({all + 3});
  const at::Tensor wanted = seen.clone();
  std::vector<at::Tensor> from;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const at::ScalarType type = i % 3 == 0 ? at::kBFloat16 : i % 3 == 1 ? at::kFloat : at::kHalf;
    from.push_back(
        at::randn({sizes[i] + static_cast<int64_t>(i % 2)}).to(type).narrow(0, static_cast<int64_t>(i % 2), sizes[i]));
    if (sizes[i] > 0) from.back()[0] = -0.0;
  }
  const auto into = pieces_of(seen, sizes);
  EXPECT_EQ(by_kernel(into, from, /*add=*/false), launches);
  gather_(pieces_of(wanted, sizes), from, /*add=*/false);
  EXPECT_EQ(std::memcmp(seen.const_data_ptr(), wanted.const_data_ptr(), seen.nbytes()), 0);
  by_kernel(into, from, /*add=*/true);
  gather_(pieces_of(wanted, sizes), from, /*add=*/true);
  EXPECT_EQ(std::memcmp(seen.const_data_ptr(), wanted.const_data_ptr(), seen.nbytes()), 0);
}

TEST(GatherKernel, HasTheBitsOfCopiesAndAdditions) {
  expect_moved({1}, 1);
  expect_moved({4, 0, 4096, 4097, 3}, 1);
  expect_moved({20000, 64, 64, 12, 9000}, 1);
  expect_moved({0, 0}, 0);
  expect_moved(std::vector<int64_t>(96, 5), 1);
  expect_moved(std::vector<int64_t>(97, 8), 2);
  expect_moved(std::vector<int64_t>(300, 33), 4);
}

}  // namespace
}  // namespace ddpm::parallel::test
