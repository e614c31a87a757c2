#include "config/combinations.h"

#include <gmock/gmock.h>

#include "config/example.h"

namespace ddpm::config {
namespace {

std::string refusal_of(const Features& features) {
  return refusal([&] { refuse_combinations(features); });
}

TEST(Combinations, DefaultsWork) { EXPECT_EQ(refusal_of(Features{}), "accepted"); }

TEST(Combinations, TheBatchDividesByMicroSizeAndRanks) {
  EXPECT_EQ(refusal_of({.world_size = 4, .global_size = 24, .micro_size = 3}), "accepted");
  EXPECT_EQ(refusal_of({.world_size = 4, .global_size = 25, .micro_size = 3}),
            "batch.global_size = 25 does not divide into micro-batches: it must be a positive multiple of "
            "batch.micro_size × data-parallel ranks = 3 × 4 = 12");
  EXPECT_NE(refusal_of({.world_size = int64_t{1} << 40, .global_size = 16, .micro_size = int64_t{1} << 40}),
            "accepted");
}

TEST(Combinations, ShardsTimesReplicasAreTheRanks) {
  const auto with = [](std::optional<int64_t> shard, std::optional<int64_t> replicate) {
    return refusal_of(
        {.zero_stage = 1, .world_size = 8, .global_size = 8, .dp_shard_size = shard, .dp_replicate_size = replicate});
  };
  EXPECT_EQ(with({}, {}), "accepted");
  EXPECT_EQ(with(4, {}), "accepted");
  EXPECT_EQ(with({}, 8), "accepted");
  EXPECT_EQ(with(2, 4), "accepted");
  EXPECT_EQ(with(2, 2),
            "parallel.dp_shard_size = 2 × parallel.dp_replicate_size = 2 is 4; it must be the number of data-parallel "
            "ranks, 8");
  EXPECT_NE(with(3, {}), "accepted");
  EXPECT_NE(with({}, 16), "accepted");
}

TEST(Combinations, ShardsNeedAStage) {
  EXPECT_NE(refusal_of({.world_size = 8, .global_size = 8, .dp_shard_size = 8}), "accepted");
  EXPECT_EQ(refusal_of({.world_size = 8, .global_size = 8, .dp_shard_size = 1}), "accepted");
}

TEST(Combinations, OnlyStage3HasWeightsToOffload) {
  EXPECT_NE(refusal_of({.zero_stage = 2, .offload = "parameters"}), "accepted");
  EXPECT_EQ(refusal_of({.zero_stage = 3, .offload = "parameters"}), "accepted");
  EXPECT_EQ(refusal_of({.offload = "optimizer"}), "accepted");
}

TEST(Combinations, AllRefusalsAreListed) {
  const Features all{.reproducible = true,
                     .zero_stage = 2,
                     .gradient_compression = "bf16",
                     .world_size = 3,
                     .global_size = 16,
                     .micro_size = 5,
                     .dp_shard_size = 2};
  EXPECT_EQ(refusals(all).size(), 6U);
  EXPECT_TRUE(refusals(Features{}).empty());
}

TEST(Combinations, ReproducibleNeedsPowersOfTwo) {
  const auto with = [](int64_t world, int64_t global, int64_t micro) -> std::string {
    const auto lines = refusals(
        {.reproducible = true, .threads_per_rank = 1, .world_size = world, .global_size = global, .micro_size = micro});
    return lines.empty() ? "accepted" : lines.back();
  };
  EXPECT_EQ(with(1, 16, 16), "accepted");
  EXPECT_EQ(with(4, 96, 6), "accepted");
  EXPECT_EQ(with(3, 96, 6),
            "run.reproducible = true with batch.global_size = 96, batch.micro_size = 6 and 3 ranks: it needs powers of "
            "two, both as the number of ranks and as batch.global_size / batch.micro_size");
  EXPECT_NE(with(4, 96, 8), "accepted");
  EXPECT_NE(with(1, 16, 3), "accepted");
  EXPECT_NE(with(1, 16, 0), "accepted");
  EXPECT_EQ(refusal_of({.reproducible = false, .world_size = 3, .global_size = 96, .micro_size = 8}), "accepted");
}

TEST(Combinations, ReproducibleNeedsAFixedNumberOfThreads) {
  EXPECT_THAT(refusal_of({.reproducible = true}), testing::HasSubstr("run.threads_per_rank = 0"));
  EXPECT_EQ(refusal_of({.reproducible = true, .threads_per_rank = 2}), "accepted");
}

TEST(Combinations, ReproducibleNeedsWholeGradientsInFloat32) {
  EXPECT_EQ(refusal_of({.reproducible = true, .threads_per_rank = 1, .zero_stage = 1}), "accepted");
  EXPECT_THAT(refusal_of({.reproducible = true, .threads_per_rank = 1, .zero_stage = 2}),
              testing::HasSubstr("parallel.zero_stage = 2"));
  EXPECT_THAT(refusal_of({.reproducible = true, .threads_per_rank = 1, .gradient_compression = "bf16"}),
              testing::HasSubstr("gradient_compression"));
}

TEST(Combinations, WhatAnotherNumberOfRanksWouldAllowIsToldApart) {
  const auto count = [](const Features& features, Scope scope) { return refusals(features, scope).size(); };
  const Features uneven{.world_size = 3, .global_size = 8, .micro_size = 1};
  EXPECT_EQ(count(uneven, Scope::all), 1U);
  EXPECT_EQ(count(uneven, Scope::any_number_of_ranks), 0U);
  const Features offload{.offload = "parameters"};
  EXPECT_EQ(count(offload, Scope::all), 1U);
  EXPECT_EQ(count(offload, Scope::any_number_of_ranks), 1U);
}

}  // namespace
}  // namespace ddpm::config
