// The CUDA kernels of group normalisation, run on the CPU with the grids that a GPU would be given, against the same
// formula by ATen in float64.
//
// What stands for CUDA comes before the kernels.
// clang-format off
#include "support/cuda_on_cpu.h"
#include "nn/ops/cuda/group_norm_forward.cuh"
#include "nn/ops/cuda/group_norm_parameters.cuh"
// clang-format on
#include <array>
#include <limits>

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "nn/golden_case.h"
#include "nn/ops/cuda/group_norm_tensors.h"
#include "nn/ops/group_norm_case.h"

namespace ddpm::nn::test {
namespace {

using nn::cuda::ElementType;
using nn::cuda::NormGrid;
using nn::cuda::NormPlan;

using ddpm::test::cuda::OnCpu;

OptionalTensor optional(const at::Tensor& t) { return t.defined() ? OptionalTensor(t) : std::nullopt; }

/// Norms as norm_by_ddpm() does on a GPU. `plans`: how forward and backward were cut.
std::vector<at::Tensor> by_kernels(const NormCase& c, const NormInputs& in, std::vector<NormPlan>* plans = nullptr) {
  const std::vector<at::Tensor>& t = in.tensors;
  const Modulation m = modulation_of(c, t);
  const bool silu = c.activation == Activation::silu;
  const auto note = [&](const NormPlan& plan) {
    if (plans != nullptr) plans->push_back(plan);
  };
  const Branches branches = branches_of(c, t);
  const auto [y, sum, mean, rstd] = nn::cuda::group_norm_forward_tensors(
      t[0], optional(branches.residual), t[1], t[2], optional(m.shift_before), optional(m.scale),
      optional(m.shift_after), c.groups, 1e-5, silu, [&](const nn::cuda::NormForward& f) {
        note(f.plan);
        nn::cuda::group_norm_forward(f, OnCpu{});
      });
  const auto [dx, dweight, dbias, dshift_before, dscale, dshift_after] = nn::cuda::group_norm_backward_tensors(
      in.dy, c.connection == Connection::none ? std::nullopt : optional(in.residual_gradient),
      sum.defined() ? sum : t[0], t[1], t[2], optional(m.shift_before), optional(m.scale), optional(m.shift_after),
      mean, rstd, silu, [&](const nn::cuda::NormBackward& b) {
        note(b.plan);
        nn::cuda::group_norm_backward(b, OnCpu{});
      });
  std::vector<at::Tensor> results = {y, dx, dweight, dbias};
  for (const at::Tensor& gradient : {dshift_before, dscale, dshift_after}) {
    if (gradient.defined()) results.push_back(gradient);
  }
  if (sum.defined()) results.insert(results.end(), {dx, sum});
  return results;
}

std::vector<at::Tensor> in_float64(const NormCase& c, const NormInputs& in) {
  return norm_by_aten(c, in.to(at::kDouble));
}

void expect_near_float64(const NormCase& c, at::ScalarType dtype) {
  const NormInputs in = norm_inputs(c, dtype);
  expect_norm_near(c, by_kernels(c, in), in_float64(c, in), dtype, norm_tolerance(c, dtype));
}

void expect_near_float64(const NormCase& c) {
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16, at::kHalf}) expect_near_float64(c, dtype);
}

TEST(GroupNormCuda, AgreesWithFloat64ForAnyModulationAndActivation) {
  for (const Modulated m : {Modulated::not_at_all, Modulated::before, Modulated::scale_shift, Modulated::both}) {
    for (const Activation a : {Activation::none, Activation::silu}) {
      expect_near_float64({2, 64, 32, 3, 5, m, a});  // vectors hold several groups
      expect_near_float64({3, 21, 3, 11, 9, m, a});  // no vectors
      expect_near_float64({1, 8, 2, 49, 47, m, a});  // too large for one pass
    }
  }
}

TEST(GroupNormCuda, AgreesWithFloat64ForAnySizeOfGroup) {
  const Modulated m = Modulated::both;
  for (const int64_t per_group : {1, 3, 8, 12, 48}) expect_near_float64({2, 8 * per_group, 8, 5, 3, m});
  for (const int64_t channels : {1, 5, 37, 150}) expect_near_float64({1, channels, 1, 3, 7, m});
  expect_near_float64({2, 1280, 2, 2, 3, m});  // a group is wider than a block
  expect_near_float64({1, 150, 2, 2, 3, m});   // is computed without vectors
  expect_near_float64({1, 602, 301, 2, 1, m});
}

TEST(GroupNormCuda, AgreesWithFloat64ForAnySizeOfImage) {
  const Modulated m = Modulated::both;
  expect_near_float64({3, 32, 4, 1, 1, m});
  expect_near_float64({11, 16, 4, 1, 33, m});              // more images than warps add up parameters
  expect_near_float64({67, 40, 4, 1, 3, m});               // and more rows of blocks than warps
  expect_near_float64({1, 64, 4, 32, 32, m});              // the largest tiles of one pass
  expect_near_float64({2, 150, 3, 20, 21, m});             // several slabs and chunks
  expect_near_float64({1, 8, 2, 301, 307, m}, at::kHalf);  // as many chunks as there may be
}

TEST(GroupNormCuda, AgreesWithFloat64AtTheHeadOfAResidualConnection) {
  for (const Connection k : {Connection::head, Connection::sum}) {
    for (const Activation a : {Activation::none, Activation::silu}) {
      expect_near_float64({2, 64, 32, 3, 5, Modulated::both, a, k});
      expect_near_float64({3, 21, 3, 11, 9, Modulated::both, a, k});
      expect_near_float64({1, 8, 2, 49, 47, Modulated::both, a, k});
    }
  }
}

TEST(GroupNormCuda, ASumHasTheBitsOfAnAdditionBefore) {
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16, at::kHalf}) {
    for (const int64_t height : {5, 301}) {
      const NormCase c{1, 32, 4, height, 7, Modulated::both, Activation::silu, Connection::sum};
      const NormInputs in = norm_inputs(c, dtype);
      in.tensors[0].mul_(1.1);  // so that the sum is rounded
      NormCase added = c;
      added.connection = Connection::head;
      NormInputs sum = in;
      sum.tensors[0] = in.tensors[0] + in.tensors.back();
      const auto seen = by_kernels(c, in);
      const auto wanted = by_kernels(added, sum);
      for (std::size_t i = 0; i < wanted.size(); ++i) EXPECT_TRUE(at::equal(seen[i], wanted[i])) << kNormResults.at(i);
      EXPECT_TRUE(at::equal(seen.back(), sum.tensors[0]));
    }
  }
}

TEST(GroupNormCuda, OnePassIsForSmallImages) {
  const auto one_pass = [](const NormCase& c) {
    std::vector<NormPlan> plans;
    by_kernels(c, norm_inputs(c, at::kBFloat16), &plans);
    return std::pair(plans.at(0).one_pass, plans.at(1).one_pass);
  };
  EXPECT_EQ(one_pass({1, 128, 32, 16, 16}), std::pair(true, true));
  EXPECT_EQ(one_pass({1, 128, 32, 40, 40}), std::pair(true, false));
  EXPECT_EQ(one_pass({1, 128, 32, 64, 64}), std::pair(false, false));
}

at::Tensor unaligned(const at::Tensor& x) {
  const at::Tensor buffer = at::empty({x.numel() + 1}, x.options());
  const at::Tensor rows = buffer.narrow(0, 1, x.numel()).view(x.permute({0, 2, 3, 1}).sizes());
  return rows.permute({0, 3, 1, 2}).copy_(x);
}

TEST(GroupNormCuda, TakesImagesThatAreNotAligned) {
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    const NormCase head{2, 32, 8, 5, 5, Modulated::both, Activation::silu, Connection::head};
    NormCase sum = head;
    sum.connection = Connection::sum;
    // Whether forward, and whether backward see it.
    const auto expect_seen = [&](const NormCase& c, bool forward, bool backward, const auto& tensor_of) {
      NormInputs in = norm_inputs(c, dtype);
      at::Tensor& t = tensor_of(in);
      t = unaligned(t);
      std::vector<NormPlan> plans;
      const auto seen = by_kernels(c, in, &plans);
      EXPECT_EQ(plans.at(0).vector == 1, forward);
      EXPECT_EQ(plans.at(1).vector == 1, backward);
      expect_norm_near(c, seen, in_float64(c, in), dtype, norm_tolerance(c, dtype));
    };
    expect_seen(head, true, true, [](NormInputs& in) -> at::Tensor& { return in.tensors.front(); });
    expect_seen(sum, true, false, [](NormInputs& in) -> at::Tensor& { return in.tensors.front(); });
    expect_seen(sum, true, false, [](NormInputs& in) -> at::Tensor& { return in.tensors.back(); });
    expect_seen(head, false, true, [](NormInputs& in) -> at::Tensor& { return in.dy; });
    expect_seen(head, false, true, [](NormInputs& in) -> at::Tensor& { return in.residual_gradient; });
  }
}

TEST(GroupNormCuda, TakesParametersAndModulationOfOtherDtypes) {
  const NormCase c{2, 32, 8, 5, 5, Modulated::both};
  const NormInputs in = norm_inputs(c, at::kBFloat16);
  NormInputs mixed = in;
  const std::array<at::ScalarType, 3> dtypes = {at::kFloat, at::kBFloat16, at::kHalf};
  // Small enough to be the same numbers in float16.
  for (std::size_t i = 1; i < mixed.tensors.size(); ++i) mixed.tensors[i] = in.tensors[i].to(dtypes.at(i % 3));
  const auto wanted = by_kernels(c, in);
  const auto seen = by_kernels(c, mixed);
  EXPECT_TRUE(at::equal(seen[0], wanted[0]));
  EXPECT_TRUE(at::equal(seen[1], wanted[1]));
  for (std::size_t i = 2; i < seen.size(); ++i) {
    EXPECT_EQ(seen[i].scalar_type(), mixed.tensors[i - 1].scalar_type());
    EXPECT_LT(relative_distance(seen[i].to(at::kFloat), wanted[i].to(at::kFloat)), 0x1p-8) << kNormResults.at(i);
  }
}

TEST(GroupNormCuda, AnImageDoesNotDependOnItsBatch) {
  for (const int64_t height : {4, 61}) {
    const NormCase batch{3, 40, 4, height, 37, Modulated::before};
    const NormInputs in = norm_inputs(batch);
    const auto together = by_kernels(batch, in);
    for (int64_t n = 0; n < 3; ++n) {
      NormInputs one = in;
      one.tensors[0] = channels_last(in.tensors[0].narrow(0, n, 1));
      one.tensors[3] = in.tensors[3].narrow(0, n, 1);
      one.dy = channels_last(in.dy.narrow(0, n, 1));
      const auto alone = by_kernels({1, 40, 4, height, 37, Modulated::before}, one);
      for (const std::size_t i : {0U, 1U, 4U}) EXPECT_TRUE(at::equal(alone[i], together[i].narrow(0, n, 1)));
    }
  }
}

/// One pass, two passes, and no vectors.
std::vector<NormCase> three_ways() {
  return {{2, 32, 8, 16, 16, Modulated::not_at_all, Activation::none},
          {1, 32, 8, 50, 50, Modulated::not_at_all, Activation::none},
          {1, 33, 11, 16, 16, Modulated::not_at_all, Activation::none}};
}

TEST(GroupNormCuda, KeepsItsPrecisionFarFromZero) {
  for (const NormCase& c : three_ways()) {
    NormInputs in = norm_inputs(c);
    in.tensors[0] += 1000.0;  // where a float32 is a multiple of 6e-5
    in.tensors[0].select(1, 5) += 30000.0;
    const auto seen = by_kernels(c, in);
    const auto wanted = in_float64(c, in);
    EXPECT_LT(relative_distance(seen[0], wanted[0]), 1e-4) << c;
    EXPECT_LT(relative_distance(seen[1], wanted[1]), 1e-4) << c;
  }
}

TEST(GroupNormCuda, OneOutlierLeavesTheOtherPixelsTheirPrecision) {
  for (const NormCase& c : three_ways()) {
    NormInputs in = norm_inputs(c);
    in.tensors[0].select(2, 0).select(2, 0).fill_(1e5);  // the pixel that sums start from
    EXPECT_LT(relative_distance(by_kernels(c, in)[0], in_float64(c, in)[0]), 1e-5) << c;
  }
}

TEST(GroupNormCuda, AConstantImageBecomesTheBias) {
  for (const NormCase& c : three_ways()) {
    NormInputs in = norm_inputs(c);
    for (const double value : {0.0, 1.0 / 3.0, -1e6, 1e30}) {
      in.tensors[0].fill_(value);
      const auto seen = by_kernels(c, in);
      EXPECT_TRUE(at::equal(seen[0], channels_last(in.tensors[2].view({1, -1, 1, 1}).expand_as(seen[0])))) << value;
      EXPECT_TRUE(seen[1].isfinite().all().item<bool>()) << value;
    }
  }
}

TEST(GroupNormCuda, SiluIsRightAtBothEnds) {
  // One channel of two values per group: they become -bias and bias, times about 1.
  const at::Tensor magnitudes = at::tensor({1.0, 20.0, 80.0, 87.0, 90.0, 130.0, 1e4, 1e30});
  const NormCase c{1, 8, 8, 1, 2};
  NormInputs in = norm_inputs(c);
  in.tensors[0] = channels_last(at::tensor({-1.0F, 1.0F}).view({1, 1, 1, 2}).repeat({1, 8, 1, 1}));
  in.tensors[1] = magnitudes.to(at::kFloat);
  const auto seen = by_kernels(c, in);
  const auto wanted = in_float64(c, in);
  EXPECT_TRUE(at::allclose(seen[0].to(at::kDouble), wanted[0], 1e-5, 1e-35)) << seen[0] << wanted[0];
  EXPECT_TRUE(seen[1].isfinite().all().item<bool>());
}

TEST(GroupNormCuda, ANaNReachesItsGroupAndNoOther) {
  for (NormCase c : three_ways()) {
    c.images = 2;
    const NormInputs in = norm_inputs(c);
    in.tensors[0][1][6][2][3] = std::numeric_limits<float>::quiet_NaN();
    const int64_t group = c.channels / c.groups;
    const auto seen = by_kernels(c, in);
    for (const std::size_t i : {0U, 1U}) {
      at::Tensor nans = seen[i].isnan();
      const at::Tensor of_group = nans[1].narrow(0, 6 / group * group, group);
      EXPECT_TRUE(of_group.all().item<bool>()) << c;
      of_group.zero_();
      EXPECT_FALSE(nans.any().item<bool>()) << c;
    }
  }
}

TEST(GroupNormCuda, RefusesWhatItsKernelsDoNotTake) {
  const NormCase c{1, 32, 8, 5, 5};
  NormInputs in = norm_inputs(c, at::kDouble);
  EXPECT_THROW(by_kernels(c, in), base::InternalError);
  in = norm_inputs(c);
  in.tensors[0] = in.tensors[0].contiguous();
  EXPECT_THROW(by_kernels(c, in), base::InternalError);
  in = norm_inputs(c);
  in.tensors[1] = at::ones({31});
  EXPECT_THROW(by_kernels(c, in), base::InternalError);
}

/// How often the threads of all blocks come to each value.
std::vector<int> visits(const NormPlan& plan) {
  const NormGrid& g = plan.grid;
  std::vector<int> counts(static_cast<std::size_t>(int64_t{g.images} * g.pixels * g.channels));
  for (unsigned block = 0; block < g.tiles(); ++block) {
    const nn::cuda::Tile t(g, block);
    EXPECT_EQ(t.cells * t.cell_channels, t.channels);
    for (int thread = 0; thread < plan.threads; ++thread) {
      threadIdx = {static_cast<unsigned>(thread)};
      const int column = plan.vector == 1 ? t.first_channel<1>(g) : t.first_channel<8>(g);
      int p = plan.vector == 1 ? t.first_row<1>(g) : t.first_row<8>(g);
      for (int seen = 0; p < t.pixels; p += g.rows, ++seen) {
        EXPECT_TRUE(!plan.one_pass || seen < nn::cuda::kBackwardHeld);
        for (int v = 0; v < plan.vector; ++v) {
          ++counts.at(static_cast<std::size_t>(t.offset + int64_t{p} * g.channels + column + v));
        }
      }
    }
  }
  return counts;
}

TEST(GroupNormCuda, EveryValueBelongsToOneThread) {
  for (const int64_t channels : {1, 8, 24, 33, 96, 320, 602, 640, 1032, 1536}) {
    for (int64_t groups = 1; groups <= channels; ++groups) {
      if (channels % groups != 0) continue;
      for (const int64_t pixels : {1, 35, 130}) {
        const NormPlan plan = plan_norm({.images = 2, .channels = channels, .pixels = pixels, .groups = groups},
                                        ElementType::bfloat16, true, nn::cuda::kBackwardHeld);
        for (const int count : visits(plan)) ASSERT_EQ(count, 1) << channels << " " << groups << " " << pixels;
      }
    }
  }
}

}  // namespace
}  // namespace ddpm::nn::test
