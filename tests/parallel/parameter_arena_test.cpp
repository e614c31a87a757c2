#include "parallel/parameter_arena.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>

namespace ddpm::parallel {
namespace {

struct Model {
  at::Tensor bias;
  at::Tensor convolution;
  at::Tensor matrix;
  std::vector<ArenaParameter> parameters = {
      {"bias", {5}, &bias}, {"convolution", {4, 3, 2, 2}, &convolution}, {"matrix", {7, 3}, &matrix}};
};

TEST(ParameterArena, PlacesEveryParameterOnA64ByteBorderInOrder) {
  Model model;
  const ParameterArena arena(model.parameters, at::kFloat, at::kCPU);
  ASSERT_EQ(arena.entries().size(), 3U);
  EXPECT_EQ(arena.entries()[0].range, (layout::Range{0, 5}));
  EXPECT_EQ(arena.entries()[1].range, (layout::Range{16, 64}));
  EXPECT_EQ(arena.entries()[2].range, (layout::Range{64, 85}));
  EXPECT_EQ(arena.size(), 96);
  EXPECT_EQ(arena.parameter_count(), 5 + 48 + 21);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(model.matrix.const_data_ptr()) % 64, 0U);
}

TEST(ParameterArena, KeepsConvolutionWeightsChannelsLast) {
  Model model;
  const ParameterArena arena(model.parameters, at::kFloat, at::kCPU);
  EXPECT_EQ(model.convolution.sizes(), (at::IntArrayRef{4, 3, 2, 2}));
  EXPECT_TRUE(model.convolution.is_contiguous(at::MemoryFormat::ChannelsLast));
  EXPECT_TRUE(model.matrix.is_contiguous());
}

TEST(ParameterArena, BindsLeavesThatShareTheWorkingBuffer) {
  Model model;
  ParameterArena arena(model.parameters, at::kFloat, at::kCPU);
  EXPECT_TRUE(model.matrix.requires_grad());
  EXPECT_TRUE(model.matrix.is_leaf());
  EXPECT_FALSE(arena.mixed_precision());
  const at::Tensor values = at::randn({7, 3});
  ParameterArena::view(arena.master(), arena.entries()[2]).copy_(values);
  EXPECT_TRUE(at::equal(model.matrix.detach(), values));
}

TEST(ParameterArena, CastsTheMasterWeightsInMixedPrecision) {
  Model model;
  ParameterArena arena(model.parameters, at::kBFloat16, at::kCPU);
  EXPECT_TRUE(arena.mixed_precision());
  const at::Tensor values = at::randn({4, 3, 2, 2});
  ParameterArena::view(arena.master(), arena.entries()[1]).copy_(values);
  EXPECT_FALSE(at::equal(model.convolution.detach(), values.to(at::kBFloat16)));
  arena.refresh_working();
  EXPECT_TRUE(at::equal(model.convolution.detach(), values.to(at::kBFloat16)));
}

}  // namespace
}  // namespace ddpm::parallel
