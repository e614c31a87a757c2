// Compares group normalisation with modulation and SiLU with ATen's result in float64.
#include <initializer_list>
#include <limits>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/roll.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "base/error.h"
#include "nn/golden_case.h"
#include "nn/ops/group_norm_case.h"
#include "nn/ops/threads.h"
#include "nn/saved_tensors.h"

namespace ddpm::nn::test {
namespace {

constexpr auto kActivations = {Activation::none, Activation::silu, Activation::mish, Activation::gelu,
                               Activation::relu};

std::vector<at::Tensor> in_float64(const NormCase& c, const NormInputs& in) {
  return norm_by_aten(c, in.to(at::kDouble));
}

void expect_near_float64(NormCase c, std::initializer_list<Activation> activations) {
  for (const Modulated m : {Modulated::not_at_all, Modulated::before, Modulated::scale_shift, Modulated::both}) {
    for (const Activation a : activations) {
      for (const Connection k : {Connection::none, Connection::head, Connection::sum}) {
        c.modulated = m;
        c.activation = a;
        c.connection = k;
        for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
          const NormInputs in = norm_inputs(c, dtype);
          expect_norm_near(c, norm_by_ddpm(c, in), in_float64(c, in), dtype, norm_tolerance(c, dtype));
        }
      }
    }
  }
}

void expect_near_float64(const NormCase& c) { expect_near_float64(c, {Activation::none, Activation::silu}); }

TEST(GroupNormSilu, AgreesWithFloat64ForAnyNumberOfImages) {
  for (int64_t images = 1; images <= 5; ++images) expect_near_float64({images, 64, 32, 3, 5});
}

TEST(GroupNormSilu, AgreesWithFloat64ForAnySizeOfGroup) {
  for (const int64_t per_group : {2, 3, 4, 8, 48}) expect_near_float64({2, 4 * per_group, 4, 5, 7});
  for (const int64_t channels : {3, 5, 24, 37}) expect_near_float64({2, channels, 1, 5, 7});
  for (const int64_t channels : {7, 32}) expect_near_float64({2, channels, channels, 8, 8});
}

TEST(GroupNormSilu, AgreesWithFloat64ForAnySizeOfImage) {
  expect_near_float64({3, 32, 4, 1, 1});
  expect_near_float64({3, 32, 4, 1, 33});
  expect_near_float64({2, 64, 32, 32, 32});
  expect_near_float64({1, 40, 8, 61, 67});  // several slabs, the last one not full
}

TEST(GroupNormSilu, AgreesWithFloat64ForAnyActivation) {
  expect_near_float64({2, 64, 32, 3, 5}, kActivations);
  expect_near_float64({1, 40, 8, 13, 17}, kActivations);
}

TEST(GroupNormSilu, ASumHasTheBitsOfAnAdditionBefore) {
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16, at::kHalf}) {  // float16 by ATen's operations
    for (const Activation a : kActivations) {
      const NormCase c{3, 40, 8, 61, 67, Modulated::both, a, Connection::sum};
      const NormInputs in = norm_inputs(c, dtype);
      in.tensors[0].mul_(1.1);  // so that the sum is rounded
      NormCase added = c;
      added.connection = Connection::head;
      std::vector<at::Tensor> sum = in.tensors;
      sum[0] = in.tensors[0] + in.tensors.back();
      const NormalisedSum seen = normalise_sum(c, in.tensors);
      EXPECT_TRUE(at::equal(seen.y, normalise(added, sum)));
      EXPECT_TRUE(at::equal(seen.x, sum[0]));
    }
  }
}

TEST(GroupNormSilu, GradientsComeByEitherResultAlone) {
  for (const Connection k : {Connection::head, Connection::sum}) {
    const NormCase c{2, 32, 8, 5, 6, Modulated::not_at_all, Activation::silu, k};
    const NormInputs in = norm_inputs(c);
    const at::Tensor& addend = in.tensors[0].requires_grad_();
    const at::Tensor& residual = in.tensors.back().requires_grad_();
    const bool sum = k == Connection::sum;
    normalise_sum(c, in.tensors).x.backward(in.residual_gradient);
    EXPECT_TRUE(at::equal(addend.grad(), in.residual_gradient));
    EXPECT_TRUE(!sum || at::equal(residual.grad(), in.residual_gradient));
    addend.mutable_grad().reset();
    residual.mutable_grad().reset();
    normalise_sum(c, in.tensors).y.backward(in.dy);
    const auto wanted = norm_by_aten(
        {2, 32, 8, 5, 6}, {{joined(branches_of(c, in.tensors)).detach(), in.tensors[1], in.tensors[2]}, in.dy, {}});
    EXPECT_LT(relative_distance(addend.grad(), wanted[1]), 1e-5);
    EXPECT_TRUE(!sum || at::equal(residual.grad(), addend.grad()));
  }
}

TEST(GroupNormSilu, TakesAResidualOfAnyMemoryOrder) {
  const NormCase c{2, 32, 8, 5, 6, Modulated::before, Activation::silu, Connection::sum};
  NormInputs in = norm_inputs(c);
  const auto wanted = norm_by_ddpm(c, in);
  in.tensors.back() = in.tensors.back().contiguous();
  const auto seen = norm_by_ddpm(c, in);
  for (std::size_t i = 0; i < seen.size(); ++i) EXPECT_TRUE(at::equal(seen[i], wanted[i])) << kNormResults.at(i);
}

TEST(GroupNormSilu, RefusesAResidualUnlikeItsAddend) {
  const NormCase c{2, 32, 8, 5, 6, Modulated::not_at_all, Activation::silu, Connection::sum};
  std::vector<at::Tensor> t = norm_inputs(c).tensors;
  t.back() = t.back().narrow(2, 0, 1);
  EXPECT_THROW(normalise(c, t), base::InternalError);
  t.back() = t[0].to(at::kBFloat16);
  EXPECT_THROW(normalise(c, t), base::InternalError);
}

TEST(GroupNormSilu, TakesParametersAndModulationOfOtherDtypes) {
  const NormCase c{2, 32, 8, 5, 5, Modulated::scale_shift};
  const NormInputs in = norm_inputs(c, at::kBFloat16);
  std::vector<at::Tensor> mixed = in.tensors;
  for (std::size_t i = 1; i < mixed.size(); ++i) mixed[i] = mixed[i].to(at::kFloat);
  const at::Tensor y = normalise(c, mixed);
  EXPECT_EQ(y.scalar_type(), at::kBFloat16);
  EXPECT_TRUE(at::equal(y, normalise(c, in.tensors)));
}

TEST(GroupNormSilu, TakesAGradientOfAnyMemoryOrder) {
  const NormCase c{2, 32, 8, 5, 6};
  NormInputs in = norm_inputs(c);
  const auto wanted = norm_by_ddpm(c, in);
  in.dy = in.dy.contiguous();
  EXPECT_TRUE(at::equal(norm_by_ddpm(c, in)[1], wanted[1]));
  in.dy = at::ones({}).expand(in.dy.sizes());
  EXPECT_LT(relative_distance(norm_by_ddpm(c, in)[1], in_float64(c, in)[1]), 1e-5);
}

TEST(GroupNormSilu, HasTheSameBitsOnAnyNumberOfThreads) {
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    for (const int64_t images : {1, 2, 3, 8}) {
      const NormCase c{images, 64, 32, 64, 64, Modulated::scale_shift, Activation::silu, Connection::sum};
      const NormInputs in = norm_inputs(c, dtype);
      const auto with = [&](int threads) {
        const Threads scope(threads);
        return norm_by_ddpm(c, in);
      };
      const auto wanted = with(1);
      for (const int threads : {2, 3, 5}) {
        const auto seen = with(threads);
        for (std::size_t i = 0; i < seen.size(); ++i) EXPECT_TRUE(at::equal(seen[i], wanted[i])) << kNormResults.at(i);
      }
    }
  }
}

TEST(GroupNormSilu, AnImageDoesNotDependOnItsBatch) {
  const NormCase batch{4, 32, 8, 16, 16, Modulated::before};
  const NormInputs in = norm_inputs(batch);
  const at::Tensor y = normalise(batch, in.tensors);
  for (int64_t n = 0; n < 4; ++n) {
    std::vector<at::Tensor> one = in.tensors;
    one[0] = channels_last(in.tensors[0].narrow(0, n, 1));
    one[3] = in.tensors[3].narrow(0, n, 1);
    EXPECT_TRUE(at::equal(normalise(batch, one), y.narrow(0, n, 1)));
  }
}

TEST(GroupNormSilu, KeepsItsPrecisionFarFromZero) {
  for (const Activation a : kActivations) {
    const NormCase c{2, 32, 8, 16, 16, Modulated::not_at_all, a};
    NormInputs in = norm_inputs(c);
    in.tensors[0] += 1000.0;  // where a float32 is a multiple of 6e-5
    in.tensors[0].select(1, 5) += 30000.0;
    const auto seen = norm_by_ddpm(c, in);
    const auto wanted = in_float64(c, in);
    EXPECT_LT(relative_distance(seen[0], wanted[0]), 1e-4) << c;
    EXPECT_LT(relative_distance(seen[1], wanted[1]), 1e-4) << c;
  }
}

TEST(GroupNormSilu, OneOutlierLeavesTheOtherPixelsTheirPrecision) {
  const NormCase c{1, 32, 8, 16, 16, Modulated::not_at_all, Activation::none};
  NormInputs in = norm_inputs(c);
  in.tensors[0].select(2, 0).select(2, 0).fill_(1e5);  // the pixel that sums start from
  const auto seen = norm_by_ddpm(c, in);
  const auto wanted = in_float64(c, in);
  EXPECT_LT(relative_distance(seen[0], wanted[0]), 1e-5);
}

TEST(GroupNormSilu, AConstantImageBecomesTheBias) {
  const NormCase c{2, 32, 8, 16, 16, Modulated::not_at_all, Activation::none};
  NormInputs in = norm_inputs(c);
  for (const double value : {0.0, 1.0 / 3.0, -1e6, 1e30}) {
    in.tensors[0].fill_(value);
    const auto seen = norm_by_ddpm(c, in);
    EXPECT_TRUE(at::equal(seen[0], channels_last(in.tensors[2].view({1, 32, 1, 1}).expand_as(seen[0])))) << value;
    EXPECT_TRUE(seen[1].isfinite().all().item<bool>()) << value;
  }
}

TEST(GroupNormSilu, SiluIsRightAtBothEnds) {
  // One channel of two values per group: they become -bias and bias, times about 1.
  const at::Tensor magnitudes = at::tensor({1.0, 20.0, 80.0, 87.0, 90.0, 130.0, 1e4, 1e30});
  const NormCase c{1, 8, 8, 1, 2};
  NormInputs in = norm_inputs(c);
  in.tensors[0] = channels_last(at::tensor({-1.0F, 1.0F}).view({1, 1, 1, 2}).repeat({1, 8, 1, 1}));
  in.tensors[1] = magnitudes.to(at::kFloat);
  const auto seen = norm_by_ddpm(c, in);
  const auto wanted = in_float64(c, in);
  EXPECT_TRUE(at::allclose(seen[0].to(at::kDouble), wanted[0], 1e-5, 1e-35)) << seen[0] << wanted[0];
  EXPECT_TRUE(seen[1].isfinite().all().item<bool>());
}

TEST(GroupNormSilu, InAnyOrderTheResultRollsWithTheImage) {
  for (const int64_t channels : {64, 40, 6}) {
    for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
      const NormCase c{2, channels, 2, 9, 11};
      const NormInputs in = norm_inputs(c, dtype);
      GroupNormOptions options{.groups = c.groups, .activation = Activation::silu, .in_any_order = true};
      const auto normalised = [&](const at::Tensor& x) {
        return group_norm_silu(channels_last(x), in.tensors[1], in.tensors[2], options, {}, Partition());
      };
      const auto rolled = [](const at::Tensor& x) { return at::roll(x, {5, 4}, {2, 3}); };
      const at::Tensor y = normalised(in.tensors[0]);
      EXPECT_TRUE(at::equal(normalised(rolled(in.tensors[0])), rolled(y))) << channels << " " << dtype;
      options.in_any_order = false;
      EXPECT_TRUE(at::allclose(normalised(in.tensors[0]).to(at::kFloat), y.to(at::kFloat), 1e-2, 1e-5));
    }
  }
}

TEST(GroupNormSilu, ANaNReachesItsGroupAndNoOther) {
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    const NormCase c{2, 32, 8, 5, 5};
    const NormInputs in = norm_inputs(c, dtype);
    in.tensors[0][1][6][2][3] = std::numeric_limits<float>::quiet_NaN();
    for (const at::Tensor& t : {norm_by_ddpm(c, in)[0], norm_by_ddpm(c, in)[1]}) {
      at::Tensor nans = t.isnan();
      EXPECT_TRUE(nans[1].narrow(0, 4, 4).all().item<bool>());
      nans[1].narrow(0, 4, 4).zero_();
      EXPECT_FALSE(nans.any().item<bool>());
    }
  }
}

/// Adds up the bytes of what is saved.
class Bytes : public SavedTensorHandler {
 public:
  std::unique_ptr<SavedTensor> save(const at::Tensor& tensor) override {
    saved += static_cast<int64_t>(tensor.nbytes());
    return std::make_unique<Kept>(tensor.detach());
  }
  int64_t saved = 0;

 private:
  struct Kept : SavedTensor {
    explicit Kept(at::Tensor t) : tensor(std::move(t)) {}
    at::Tensor restore() override { return tensor; }
    at::Tensor tensor;
  };
};

TEST(GroupNormSilu, SavesOnlyOneTensorAsLargeAsTheInput) {
  const NormCase c{2, 32, 8, 5, 5, Modulated::scale_shift};
  const NormInputs in = norm_inputs(c);
  in.tensors[0].requires_grad_();
  Bytes bytes;
  at::Tensor y;
  {
    const SavedTensorScope scope(bytes);
    y = normalise(c, in.tensors);
  }
  int64_t wanted = 2 * 2 * 8 * 4;  // mean and 1/σ
  for (const at::Tensor& t : in.tensors) wanted += static_cast<int64_t>(t.nbytes());
  EXPECT_EQ(bytes.saved, wanted);
  y.backward(in.dy);
  EXPECT_TRUE(in.tensors[0].grad().defined());
}

TEST(GroupNormSilu, SavesTheSumAndNoAddend) {
  const NormCase c{2, 32, 8, 5, 5, Modulated::not_at_all, Activation::silu, Connection::sum};
  const NormInputs in = norm_inputs(c);
  in.tensors[0].requires_grad_();
  in.tensors.back().requires_grad_();
  Bytes bytes;
  NormalisedSum result;
  {
    const SavedTensorScope scope(bytes);
    result = normalise_sum(c, in.tensors);
  }
  EXPECT_EQ(bytes.saved, 2 * 2 * 8 * 4 + static_cast<int64_t>(2 * 32 * 4 + in.dy.nbytes()));
  torch::autograd::backward({result.y, result.x}, {in.dy, in.residual_gradient});
  EXPECT_TRUE(at::equal(in.tensors[0].grad(), in.tensors.back().grad()));
}

/// One of two tiles that are alike, on a GPU.
class TileOnGpu final : public Partition {
 public:
  [[nodiscard]] int64_t tiles() const override { return 2; }
  [[nodiscard]] bool stands_for_gpu() const override { return true; }
};

// There, LibTorch's own operations in float32 normalise tiles.
TEST(GroupNormSilu, TheMetaDeviceCountsWhatATileOnAGpuSaves) {
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    const NormCase c{2, 32, 8, 5, 5};
    const NormInputs in = norm_inputs(c, dtype);
    const auto saved_by = [&](const at::Device& device, const Partition& partition) {
      std::vector<at::Tensor> tensors;
      for (const at::Tensor& t : in.tensors) tensors.push_back(t.detach().to(device).requires_grad_());
      Bytes bytes;
      const SavedTensorScope scope(bytes);
      const GroupNormOptions options{.groups = c.groups, .activation = Activation::silu};
      const at::Tensor x = tensors[0].contiguous(at::MemoryFormat::ChannelsLast);
      (void)group_norm_silu(x, tensors[1], tensors[2], options, {}, partition);
      return bytes.saved;
    };
    const TileOnGpu tile;
    EXPECT_EQ(saved_by(at::kMeta, tile), saved_by(at::kCPU, tile));
    const auto floats = static_cast<int64_t>(sizeof(float)) * in.dy.numel();
    EXPECT_GT(saved_by(at::kMeta, tile), 2 * floats + static_cast<int64_t>(in.dy.nbytes()));
    EXPECT_LT(saved_by(at::kMeta, whole_image()), 2 * floats);
  }
}

TEST(GroupNormSilu, RefusesASecondDerivative) {
  const NormCase c{1, 32, 8, 5, 5};
  const NormInputs in = norm_inputs(c);
  in.tensors[0].requires_grad_();
  const at::Tensor y = normalise(c, in.tensors);
  EXPECT_THROW(torch::autograd::grad({y.sum()}, {in.tensors[0]}, {}, {}, /*create_graph=*/true), base::InternalError);
}

}  // namespace
}  // namespace ddpm::nn::test
