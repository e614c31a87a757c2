#include "parallel/offload.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <gtest/gtest.h>

namespace ddpm::parallel {
namespace {

/// Two units of 100 and 60 elements, the second of which the layout pads.
struct OffloadedModel {
  at::Tensor first;
  at::Tensor second;
  std::vector<ArenaParameter> parameters = {{"first", {100}, &first, 0}, {"second", {60}, &second, 1}};
};

struct Case {
  Sharding sharding;
  at::ScalarType dtype = at::kFloat;
};

class OffloadedUpdates : public testing::TestWithParam<Case> {};

TEST_P(OffloadedUpdates, VisitEveryElementOnceWithItsGradientAndRefreshTheWeights) {
  OffloadedModel model;
  ParameterArena arena(model.parameters, GetParam().dtype, at::kCPU, GetParam().sharding);
  constexpr int64_t kChunk = 7;  // more chunks than slots, the last of a piece shorter
  OffloadedUpdate update(arena, kChunk);
  for (int step = 0; step < 2; ++step) {
    for (const at::Tensor& piece : arena.gradient_pieces()) piece.copy_(at::arange(piece.numel()) + 1000 * step);
    for (const at::Tensor& piece : arena.master()) piece.zero_();
    std::vector<std::vector<int>> visits;
    for (const layout::Range piece : arena.pieces()) visits.emplace_back(static_cast<std::size_t>(piece.size()), 0);
    update.start();
    update.run([&](std::size_t piece, layout::Range range, std::span<const float> gradient) {
      ASSERT_EQ(std::ssize(gradient), range.size());
      ASSERT_LE(range.size(), kChunk);
      auto* weights = arena.master()[piece].mutable_data_ptr<float>();
      for (int64_t i = range.begin; i < range.end; ++i) {
        weights[i] = -gradient[static_cast<std::size_t>(i - range.begin)];
        ++visits[piece][static_cast<std::size_t>(i)];
      }
    });
    const StateBuffer working = arena.working_pieces();
    for (std::size_t piece = 0; piece < visits.size(); ++piece) {
      EXPECT_EQ(visits[piece], std::vector<int>(visits[piece].size(), 1));
      EXPECT_TRUE(at::equal(arena.master()[piece], -arena.gradient_pieces()[piece]));
      EXPECT_TRUE(at::equal(working[piece], arena.master()[piece].to(GetParam().dtype)));
    }
  }
}

TEST_P(OffloadedUpdates, MayBeStartedAndSkipped) {
  OffloadedModel model;
  ParameterArena arena(model.parameters, GetParam().dtype, at::kCPU, GetParam().sharding);
  OffloadedUpdate update(arena, 7);
  for (const at::Tensor& piece : arena.gradient_pieces()) piece.fill_(1);
  update.start();
  for (const at::Tensor& piece : arena.gradient_pieces()) piece.fill_(2);
  update.start();
  double sum = 0.0;
  update.run([&](std::size_t, layout::Range, std::span<const float> gradient) {
    for (const float value : gradient) sum += value;
  });
  int64_t elements = 0;
  for (const layout::Range piece : arena.pieces()) elements += piece.size();
  EXPECT_EQ(sum, 2.0 * static_cast<double>(elements));
}

INSTANTIATE_TEST_SUITE_P(
    Layouts, OffloadedUpdates,
    testing::Values(
        Case{{.offload = Offload::optimizer}}, Case{{.offload = Offload::optimizer}, at::kBFloat16},
        Case{{.zero_stage = 2, .parts = 3, .index = 1, .segment_elements = 64, .offload = Offload::optimizer}},
        Case{{.zero_stage = 3, .parts = 3, .index = 2, .offload = Offload::optimizer}, at::kBFloat16},
        Case{{.zero_stage = 3, .parts = 3, .index = 0, .offload = Offload::parameters}},
        Case{{.zero_stage = 3, .parts = 3, .index = 1, .offload = Offload::parameters}, at::kBFloat16}));

TEST(Offload, KeepsMasterWeightsApartFromThoseOnTheDevice) {
  OffloadedModel model;
  const ParameterArena optimizer(model.parameters, at::kFloat, at::kCPU, {.offload = Offload::optimizer});
  EXPECT_FALSE(optimizer.master().front().is_alias_of(optimizer.working()));
  OffloadedModel other;
  const ParameterArena parameters(other.parameters, at::kFloat, at::kCPU,
                                  {.zero_stage = 3, .offload = Offload::parameters});
  EXPECT_TRUE(parameters.master().front().is_alias_of(parameters.working()));  // both are in host memory
}

}  // namespace
}  // namespace ddpm::parallel
