#include "parallel/parameter_arena.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>

namespace ddpm::parallel {
namespace {

struct ArenaModel {
  at::Tensor bias;
  at::Tensor convolution;
  at::Tensor matrix;
  std::vector<ArenaParameter> parameters = {
      {"bias", {5}, &bias}, {"convolution", {4, 3, 2, 2}, &convolution}, {"matrix", {7, 3}, &matrix}};
};

TEST(ParameterArena, PlacesEveryParameterOnA64ByteBorderInOrder) {
  ArenaModel model;
  const ParameterArena arena(model.parameters, at::kFloat, at::kCPU);
  ASSERT_EQ(arena.entries().size(), 3U);
  EXPECT_EQ(arena.entries()[0].range, (layout::Range{0, 5}));
  EXPECT_EQ(arena.entries()[1].range, (layout::Range{16, 64}));
  EXPECT_EQ(arena.entries()[2].range, (layout::Range{64, 85}));
  EXPECT_EQ(arena.size(), layout::kShardBlock);
  EXPECT_EQ(arena.parameter_count(), 5 + 48 + 21);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(model.matrix.const_data_ptr()) % 64, 0U);
}

TEST(ParameterArena, KeepsConvolutionWeightsChannelsLast) {
  ArenaModel model;
  const ParameterArena arena(model.parameters, at::kFloat, at::kCPU);
  EXPECT_EQ(model.convolution.sizes(), (at::IntArrayRef{4, 3, 2, 2}));
  EXPECT_TRUE(model.convolution.is_contiguous(at::MemoryFormat::ChannelsLast));
  EXPECT_TRUE(model.matrix.is_contiguous());
}

TEST(ParameterArena, BindsLeavesThatShareTheWorkingBuffer) {
  ArenaModel model;
  ParameterArena arena(model.parameters, at::kFloat, at::kCPU);
  EXPECT_TRUE(model.matrix.requires_grad());
  EXPECT_TRUE(model.matrix.is_leaf());
  EXPECT_FALSE(arena.mixed_precision());
  const at::Tensor values = at::randn({7, 3});
  arena.assign(arena.master(), arena.entries()[2], values);
  EXPECT_TRUE(at::equal(model.matrix.detach(), values));
}

TEST(ParameterArena, CastsTheMasterWeightsInMixedPrecision) {
  ArenaModel model;
  ParameterArena arena(model.parameters, at::kBFloat16, at::kCPU);
  EXPECT_TRUE(arena.mixed_precision());
  const at::Tensor values = at::randn({4, 3, 2, 2});
  arena.assign(arena.master(), arena.entries()[1], values);
  EXPECT_FALSE(at::equal(model.convolution.detach(), values.to(at::kBFloat16)));
  arena.refresh_working();
  EXPECT_TRUE(at::equal(model.convolution.detach(), values.to(at::kBFloat16)));
}

int64_t elements_of(const StateBuffer& state) {
  int64_t count = 0;
  for (const at::Tensor& piece : state) count += piece.numel();
  return count;
}

TEST(ParameterArena, StagesKeepTheirShare) {
  constexpr int64_t kParts = 3;
  for (int64_t stage = 0; stage <= 3; ++stage) {
    ArenaModel model;
    const ParameterArena arena(model.parameters, at::kFloat, at::kCPU,
                               {.zero_stage = stage, .parts = stage == 0 ? 1 : kParts, .index = 0});
    const int64_t share = stage == 0 ? arena.size() : arena.size() / kParts;
    EXPECT_EQ(arena.gradient().numel(), stage < 2 ? arena.size() : share) << stage;
    EXPECT_EQ(arena.working().numel(), stage < 3 ? arena.size() : share) << stage;
    EXPECT_EQ(elements_of(arena.make_state()), share) << stage;
    EXPECT_TRUE(arena.master().front().is_alias_of(arena.working())) << stage;
  }
}

TEST(ParameterArena, UnitsOfStage3HaveMemoryOnlyWhilePresent) {
  ArenaModel model;
  ParameterArena arena(model.parameters, at::kFloat, at::kCPU, {.zero_stage = 3, .parts = 2, .index = 1});
  EXPECT_EQ(arena.unit_weights(0).storage().nbytes(), 0U);
  arena.set_unit_present(0, true);
  arena.unit_weights(0).fill_(3.0);
  EXPECT_EQ(model.matrix.sum().item<double>(), 3.0 * 21);
  arena.set_unit_present(0, false);
  EXPECT_EQ(model.matrix.storage().nbytes(), 0U);
}

TEST(ParameterArena, RanksTogetherKeepEveryElementOnce) {
  for (const int64_t stage : {1, 3}) {
    const at::Tensor values = at::randn({7, 3});
    std::vector<float> kept;
    for (int64_t index = 0; index < 4; ++index) {
      ArenaModel model;
      const ParameterArena arena(model.parameters, at::kBFloat16, at::kCPU,
                                 {.zero_stage = stage, .parts = 4, .index = index});
      arena.assign(arena.master(), arena.entries()[2], values);
      for (const at::Tensor& piece : arena.master()) {
        for (int64_t i = 0; i < piece.numel(); ++i) {
          if (const float value = piece.const_data_ptr<float>()[i]; value != 0.0F) kept.push_back(value);
        }
      }
    }
    const auto* wanted = values.const_data_ptr<float>();
    EXPECT_EQ(kept, std::vector<float>(wanted, wanted + 21)) << stage;
  }
}

}  // namespace
}  // namespace ddpm::parallel
