#include <gtest/gtest.h>

#include "bench/comm_bench.h"
#include "bench/machine_limits.h"
#include "bench/spread.h"
#include "bench/stage_bench.h"
#include "parallel/unit_times.h"

namespace ddpm::bench {
namespace {

TEST(Spread, IsTheMiddleWithItsBounds) {
  const Spread odd = spread_of({3.0, 1.0, 2.0});
  EXPECT_EQ(odd.median, 2.0);
  EXPECT_EQ(odd.lowest, 1.0);
  EXPECT_EQ(odd.highest, 3.0);
  EXPECT_EQ(spread_of({4.0, 1.0, 3.0, 2.0}).median, 2.5);
  EXPECT_EQ(spread_of({7.0}).median, 7.0);
}

TEST(MachineLimits, ProductsAreTimedWithNormalValues) {
  const at::Tensor values = normal_values({3, 1 << 19}, at::kFloat);
  EXPECT_EQ(values.sizes(), (at::IntArrayRef{3, 1 << 19}));
  EXPECT_NEAR(values.mean().item<double>(), 0.0, 0.01);
  EXPECT_NEAR(values.std().item<double>(), 1.0, 0.01);
  EXPECT_TRUE(values.equal(normal_values({3, 1 << 19}, at::kFloat)));
  EXPECT_EQ(normal_values({7, 5}, at::kBFloat16).scalar_type(), at::kBFloat16);
}

std::vector<CollectiveTime> ring_times(const RingFit& truth, int64_t ranks) {
  std::vector<CollectiveTime> times;
  for (int64_t bytes = 4096; bytes <= 1 << 24; bytes *= 4) {
    for (const Collective kind : {Collective::all_reduce, Collective::reduce_scatter, Collective::all_gather}) {
      CollectiveTime one;
      one.kind = kind;
      one.bytes = bytes;
      one.seconds.median = predict(truth, kind, bytes, ranks);
      times.push_back(one);
    }
  }
  return times;
}

TEST(RingFit, FindsTheConstantsThatMadeTheTimes) {
  const RingFit truth{.alpha = 3e-6, .beta = 1e-10};
  for (const int64_t ranks : {2, 3, 64}) {
    const RingFit fit = fit_ring(ring_times(truth, ranks), ranks);
    EXPECT_NEAR(fit.alpha / truth.alpha, 1.0, 1e-9);
    EXPECT_NEAR(fit.beta / truth.beta, 1.0, 1e-9);
  }
  // Four ranks pass 3/4 of 8 MB twice, in 2 · 3 messages.
  EXPECT_NEAR(predict(truth, Collective::all_reduce, 8'000'000, 4), 6 * 3e-6 + 12e6 * 1e-10, 1e-15);
}

TEST(RingFit, HasNoNegativeConstants) {
  std::vector<CollectiveTime> times = ring_times({.alpha = 0.0, .beta = 1e-9}, 2);
  for (CollectiveTime& one : times) {
    if (one.bytes < 100'000) one.seconds.median /= 2.0;  // small ones from a cache
  }
  EXPECT_GE(fit_ring(times, 2).alpha, 0.0);
  EXPECT_GT(fit_ring(times, 2).beta, 0.0);
}

TEST(StageBench, StagesAreAsLongAsTheirUnits) {
  const StageBench bench{.units = {{.seconds = 1.0}, {.seconds = 4.0}, {.seconds = 2.0}, {.seconds = 2.0}}};
  EXPECT_EQ(bench.slowest({{0, 2}, {2, 4}}), 5.0);
  EXPECT_EQ(bench.slowest({{0, 1}, {1, 2}, {2, 4}}), 4.0);
  EXPECT_EQ(StageBench::unit_counts({{0, 1}, {1, 2}, {2, 4}}), (std::vector<int64_t>{1, 1, 2}));
}

TEST(UnitSeconds, AreThoseOfEveryKindOfUnit) {
  for (const bool volumes : {false, true}) {
    nn::UNet2DConfig model;
    model.sample_size = volumes ? std::vector<int64_t>{8, 8, 8} : std::vector<int64_t>{16, 16};
    model.dimensions = volumes ? 3 : 2;
    model.down_block_types = {"DownBlock2D", "AttnDownBlock2D"};
    model.up_block_types = {"AttnUpBlock2D", "UpBlock2D"};
    model.block_out_channels = {8, 16};
    model.norm_num_groups = 4;
    model.num_class_embeds = 3;
    const nn::ImageSize size = nn::image_size(model);
    const parallel::ActivationBatch batch{.images = 2, .height = size.rows(), .width = size.width};
    const std::vector<double> seconds = parallel::unit_seconds(model, at::kFloat, at::kCPU, batch, 1);
    EXPECT_EQ(seconds.size(), nn::UNet2D(model).units().size());
    for (const double one : seconds) {
      EXPECT_GT(one, 0.0);
      EXPECT_LT(one, 10.0);
    }
  }
}

}  // namespace
}  // namespace ddpm::bench
