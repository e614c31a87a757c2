// Group normalisation with modulation and SiLU, against the same formula by ATen in float64.
#include <array>
#include <limits>

#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "base/error.h"
#include "nn/golden_case.h"
#include "nn/ops/group_norm_silu.h"
#include "nn/ops/threads.h"
#include "nn/saved_tensors.h"

namespace ddpm::nn::test {
namespace {

enum class Modulated : uint8_t { not_at_all, before, scale_shift };

struct Case {
  int64_t images, channels, groups, height, width;
  Modulated modulated = Modulated::not_at_all;
  Activation activation = Activation::silu;
};

std::ostream& operator<<(std::ostream& out, const Case& c) {
  return out << c.images << " x " << c.channels << " channels in " << c.groups << " groups x " << c.height << " x "
             << c.width << ", modulation " << static_cast<int>(c.modulated) << ", activation "
             << static_cast<int>(c.activation);
}

at::Tensor channels_last(const at::Tensor& x) { return x.contiguous(at::MemoryFormat::ChannelsLast); }

/// x, weight, bias and what modulates; a gradient for the result.
struct Inputs {
  std::vector<at::Tensor> tensors;
  at::Tensor dy;
};

Inputs inputs(const Case& c, at::ScalarType dtype = at::kFloat) {
  at::manual_seed(c.images * 1000 + c.channels);
  const auto random = [&](at::IntArrayRef sizes) { return at::randn(sizes).to(dtype); };
  const std::vector<int64_t> image = {c.images, c.channels, c.height, c.width};
  Inputs in{.tensors = {channels_last(random(image) * 2 + 0.5), random({c.channels}), random({c.channels})},
            .dy = channels_last(random(image))};
  if (c.modulated == Modulated::before) in.tensors.push_back(random({c.images, c.channels}));
  if (c.modulated == Modulated::scale_shift) {  // two halves of one tensor, as a residual block has them
    for (const at::Tensor& half : random({c.images, 2 * c.channels}).chunk(2, 1)) in.tensors.push_back(half);
  }
  return in;
}

Modulation modulation(const Case& c, const std::vector<at::Tensor>& t) {
  if (c.modulated == Modulated::before) return {.shift_before = t[3]};
  if (c.modulated == Modulated::scale_shift) return {.scale = t[3], .shift_after = t[4]};
  return {};
}

at::Tensor by_ddpm(const Case& c, const std::vector<at::Tensor>& t) {
  return group_norm_silu(t[0], t[1], t[2], {.groups = c.groups, .activation = c.activation}, modulation(c, t),
                         Partition());
}

at::Tensor by_aten(const Case& c, const std::vector<at::Tensor>& t) {
  const auto over_pixels = [](const at::Tensor& x) { return x.unsqueeze(-1).unsqueeze(-1); };
  const at::Tensor x = c.modulated == Modulated::before ? t[0] + over_pixels(t[3]) : t[0];
  at::Tensor y = at::group_norm(x, c.groups, t[1], t[2], 1e-5, false);
  if (c.modulated == Modulated::scale_shift) y = y * (1 + over_pixels(t[3])) + over_pixels(t[4]);
  return c.activation == Activation::silu ? at::silu(y) : y;
}

/// The result, then the gradients of x, weight, bias and what modulates.
template <typename Operation>
std::vector<at::Tensor> run(const Operation& operation, const Case& c, const Inputs& in, at::ScalarType dtype) {
  std::vector<at::Tensor> leaves;
  for (const at::Tensor& t : in.tensors) leaves.push_back(t.detach().to(dtype).requires_grad_());
  const at::Tensor y = operation(c, leaves);
  y.backward(in.dy.to(dtype));
  std::vector<at::Tensor> results = {y.detach()};
  for (const at::Tensor& leaf : leaves) results.push_back(leaf.grad());
  return results;
}

constexpr std::array<const char*, 6> kNames = {"y", "dx", "dweight", "dbias", "first of modulation", "second"};

void expect_near_float64(const Case& c, const Inputs& in, at::ScalarType dtype, double tolerance) {
  SCOPED_TRACE(testing::Message() << c << ", " << dtype);
  const auto seen = run(by_ddpm, c, in, dtype);
  const auto wanted = run(by_aten, c, in, at::kDouble);
  ASSERT_EQ(seen.size(), wanted.size());
  for (std::size_t i = 0; i < seen.size(); ++i) {
    EXPECT_EQ(seen[i].scalar_type(), dtype) << kNames.at(i);
    EXPECT_EQ(seen[i].sizes(), wanted[i].sizes()) << kNames.at(i);
    // A gradient that is zero in truth is as small as the rounding of its terms, which are about 1.
    const double scale = std::max(1.0, wanted[i].abs().max().item<double>());
    const double error = (seen[i].to(at::kDouble) - wanted[i]).abs().max().item<double>() / scale;
    EXPECT_LT(error, tolerance) << kNames.at(i);
  }
}

void expect_near_float64(Case c) {
  for (const Modulated m : {Modulated::not_at_all, Modulated::before, Modulated::scale_shift}) {
    for (const Activation a : {Activation::none, Activation::silu}) {
      c.modulated = m;
      c.activation = a;
      const double elements = std::sqrt(static_cast<double>(c.images * c.height * c.width));
      expect_near_float64(c, inputs(c), at::kFloat, 2e-6 * (1 + elements / 16));
      expect_near_float64(c, inputs(c, at::kBFloat16), at::kBFloat16, 0x1p-7);
    }
  }
}

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

TEST(GroupNormSilu, TakesParametersAndModulationOfOtherDtypes) {
  const Case c{2, 32, 8, 5, 5, Modulated::scale_shift};
  const Inputs in = inputs(c, at::kBFloat16);
  std::vector<at::Tensor> mixed = in.tensors;
  for (std::size_t i = 1; i < mixed.size(); ++i) mixed[i] = mixed[i].to(at::kFloat);
  const at::Tensor y = by_ddpm(c, mixed);
  EXPECT_EQ(y.scalar_type(), at::kBFloat16);
  EXPECT_TRUE(at::equal(y, by_ddpm(c, in.tensors)));
}

TEST(GroupNormSilu, TakesAGradientOfAnyMemoryOrder) {
  const Case c{2, 32, 8, 5, 6};
  Inputs in = inputs(c);
  const auto wanted = run(by_ddpm, c, in, at::kFloat);
  in.dy = in.dy.contiguous();
  EXPECT_TRUE(at::equal(run(by_ddpm, c, in, at::kFloat)[1], wanted[1]));
  in.dy = at::ones({}).expand(in.dy.sizes());
  EXPECT_LT(relative_error(run(by_ddpm, c, in, at::kFloat)[1], run(by_aten, c, in, at::kDouble)[1]), 1e-5);
}

TEST(GroupNormSilu, HasTheSameBitsOnAnyNumberOfThreads) {
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    for (const int64_t images : {1, 2, 3, 8}) {
      const Case c{images, 64, 32, 64, 64, Modulated::scale_shift};
      const Inputs in = inputs(c, dtype);
      const auto with = [&](int threads) {
        const Threads scope(threads);
        return run(by_ddpm, c, in, dtype);
      };
      const auto wanted = with(1);
      for (const int threads : {2, 3, 5}) {
        const auto seen = with(threads);
        for (std::size_t i = 0; i < seen.size(); ++i) EXPECT_TRUE(at::equal(seen[i], wanted[i])) << kNames.at(i);
      }
    }
  }
}

TEST(GroupNormSilu, AnImageDoesNotDependOnItsBatch) {
  const Case batch{4, 32, 8, 16, 16, Modulated::before};
  const Inputs in = inputs(batch);
  const at::Tensor y = by_ddpm(batch, in.tensors);
  for (int64_t n = 0; n < 4; ++n) {
    std::vector<at::Tensor> one = in.tensors;
    one[0] = channels_last(in.tensors[0].narrow(0, n, 1));
    one[3] = in.tensors[3].narrow(0, n, 1);
    EXPECT_TRUE(at::equal(by_ddpm(batch, one), y.narrow(0, n, 1)));
  }
}

TEST(GroupNormSilu, KeepsItsPrecisionFarFromZero) {
  const Case c{2, 32, 8, 16, 16, Modulated::not_at_all, Activation::none};
  Inputs in = inputs(c);
  in.tensors[0] += 1000.0;  // where a float32 is a multiple of 6e-5
  in.tensors[0].select(1, 5) += 30000.0;
  const auto seen = run(by_ddpm, c, in, at::kFloat);
  const auto wanted = run(by_aten, c, in, at::kDouble);
  EXPECT_LT(relative_error(seen[0], wanted[0]), 1e-4);
  EXPECT_LT(relative_error(seen[1], wanted[1]), 1e-4);
}

TEST(GroupNormSilu, OneOutlierLeavesTheOtherPixelsTheirPrecision) {
  const Case c{1, 32, 8, 16, 16, Modulated::not_at_all, Activation::none};
  Inputs in = inputs(c);
  in.tensors[0].select(2, 0).select(2, 0).fill_(1e5);  // the pixel that sums start from
  const auto seen = run(by_ddpm, c, in, at::kFloat);
  const auto wanted = run(by_aten, c, in, at::kDouble);
  EXPECT_LT(relative_error(seen[0], wanted[0]), 1e-5);
}

TEST(GroupNormSilu, AConstantImageBecomesTheBias) {
  const Case c{2, 32, 8, 16, 16, Modulated::not_at_all, Activation::none};
  Inputs in = inputs(c);
  for (const double value : {0.0, 1.0 / 3.0, -1e6, 1e30}) {
    in.tensors[0].fill_(value);
    const auto seen = run(by_ddpm, c, in, at::kFloat);
    EXPECT_TRUE(at::equal(seen[0], channels_last(in.tensors[2].view({1, 32, 1, 1}).expand_as(seen[0])))) << value;
    EXPECT_TRUE(seen[1].isfinite().all().item<bool>()) << value;
  }
}

TEST(GroupNormSilu, SiluIsRightAtBothEnds) {
  // One channel of two values per group: they become -bias and bias, times about 1.
  const at::Tensor magnitudes = at::tensor({1.0, 20.0, 80.0, 87.0, 90.0, 130.0, 1e4, 1e30});
  const Case c{1, 8, 8, 1, 2};
  Inputs in = inputs(c);
  in.tensors[0] = channels_last(at::tensor({-1.0F, 1.0F}).view({1, 1, 1, 2}).repeat({1, 8, 1, 1}));
  in.tensors[1] = magnitudes.to(at::kFloat);
  const auto seen = run(by_ddpm, c, in, at::kFloat);
  const auto wanted = run(by_aten, c, in, at::kDouble);
  EXPECT_TRUE(at::allclose(seen[0].to(at::kDouble), wanted[0], 1e-5, 1e-35)) << seen[0] << wanted[0];
  EXPECT_TRUE(seen[1].isfinite().all().item<bool>());
}

TEST(GroupNormSilu, ANaNReachesItsGroupAndNoOther) {
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    const Case c{2, 32, 8, 5, 5};
    const Inputs in = inputs(c, dtype);
    in.tensors[0][1][6][2][3] = std::numeric_limits<float>::quiet_NaN();
    for (const at::Tensor& t : {run(by_ddpm, c, in, dtype)[0], run(by_ddpm, c, in, dtype)[1]}) {
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
  const Case c{2, 32, 8, 5, 5, Modulated::scale_shift};
  const Inputs in = inputs(c);
  in.tensors[0].requires_grad_();
  Bytes bytes;
  at::Tensor y;
  {
    const SavedTensorScope scope(bytes);
    y = by_ddpm(c, in.tensors);
  }
  int64_t wanted = 2 * 2 * 8 * 4;  // mean and 1/σ
  for (const at::Tensor& t : in.tensors) wanted += static_cast<int64_t>(t.nbytes());
  EXPECT_EQ(bytes.saved, wanted);
  y.backward(in.dy);
  EXPECT_TRUE(in.tensors[0].grad().defined());
}

TEST(GroupNormSilu, RefusesASecondDerivative) {
  const Case c{1, 32, 8, 5, 5};
  const Inputs in = inputs(c);
  in.tensors[0].requires_grad_();
  const at::Tensor y = by_ddpm(c, in.tensors);
  EXPECT_THROW(torch::autograd::grad({y.sum()}, {in.tensors[0]}, {}, {}, /*create_graph=*/true), base::InternalError);
}

}  // namespace
}  // namespace ddpm::nn::test
