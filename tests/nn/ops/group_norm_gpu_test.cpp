// Group normalisation on CUDA tensors, through the program's own function and autograd, against the same formula by
// ATen in float64 on the CPU.
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/equal.h>
#include <gtest/gtest.h>

#include "nn/golden_case.h"
#include "nn/ops/group_norm_case.h"

namespace ddpm::nn::test {
namespace {

const at::Device kGpu(at::kCUDA, 0);

void expect_near_float64(const NormCase& c) {
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16, at::kHalf}) {
    const NormInputs in = norm_inputs(c, dtype);
    expect_norm_near(c, norm_by_ddpm(c, in.to(kGpu)), norm_by_aten(c, in.to(at::kDouble)), dtype,
                     norm_tolerance(c, dtype));
  }
}

TEST(GroupNormGpu, AgreesWithFloat64) {
  for (const Modulated m : {Modulated::not_at_all, Modulated::before, Modulated::scale_shift, Modulated::both}) {
    for (const Activation a : {Activation::none, Activation::silu}) {
      expect_near_float64({4, 128, 32, 16, 16, m, a});
      expect_near_float64({3, 128, 32, 64, 64, m, a});
      expect_near_float64({2, 384, 32, 32, 32, m, a});
      expect_near_float64({5, 512, 32, 8, 8, m, a});
      expect_near_float64({2, 37, 1, 13, 11, m, a});
      expect_near_float64({2, 150, 3, 20, 21, m, a});
      expect_near_float64({2, 1280, 2, 4, 4, m, a});
    }
  }
  expect_near_float64({2, 128, 32, 256, 256});
  for (const Connection k : {Connection::head, Connection::sum}) {
    for (const int64_t size : {16, 64}) {
      for (const Activation a : {Activation::none, Activation::silu}) {
        expect_near_float64({3, 128, 32, size, size, Modulated::before, a, k});
        expect_near_float64({2, 37, 1, size, size, Modulated::before, a, k});
      }
    }
  }
}

TEST(GroupNormGpu, OtherActivationsAndLayoutsAgreeWithTheCpu) {
  for (const Activation a : {Activation::gelu, Activation::mish, Activation::relu}) {
    const NormCase c{2, 32, 8, 16, 16, Modulated::both, a};
    const NormInputs in = norm_inputs(c);
    NormInputs nchw = in.to(kGpu);
    nchw.tensors[0] = nchw.tensors[0].contiguous();
    const auto wanted = norm_by_ddpm(c, in.to(at::kFloat));
    for (const NormInputs& other : {in.to(kGpu), nchw}) {
      const auto seen = norm_by_ddpm(c, other);
      EXPECT_EQ(seen[0].strides(), other.tensors[0].strides());
      for (std::size_t i = 0; i < seen.size(); ++i) {
        EXPECT_LT(relative_distance(seen[i].cpu(), wanted[i]), 1e-5) << kNormResults.at(i);
      }
    }
  }
}

TEST(GroupNormGpu, HasTheSameBitsEveryTime) {
  for (const int64_t size : {16, 96}) {
    const NormCase c{16, 128, 32, size, size, Modulated::both};
    const NormInputs in = norm_inputs(c, at::kBFloat16).to(kGpu);
    const auto wanted = norm_by_ddpm(c, in);
    for (int again = 0; again < 20; ++again) {
      const auto seen = norm_by_ddpm(c, in);
      for (std::size_t i = 0; i < seen.size(); ++i) EXPECT_TRUE(at::equal(seen[i], wanted[i])) << kNormResults.at(i);
    }
  }
}

TEST(GroupNormGpu, AnImageDoesNotDependOnItsBatch) {
  for (const int64_t size : {16, 96}) {
    const NormCase batch{3, 64, 32, size, size, Modulated::not_at_all};
    const NormInputs in = norm_inputs(batch).to(kGpu);
    const at::Tensor y = normalise(batch, in.tensors);
    for (int64_t n = 0; n < 3; ++n) {
      NormInputs one = in;
      one.tensors[0] = channels_last(in.tensors[0].narrow(0, n, 1));
      EXPECT_TRUE(at::equal(normalise(batch, one.tensors), y.narrow(0, n, 1)));
    }
  }
}

}  // namespace
}  // namespace ddpm::nn::test
