#include "layout/parallelism.h"

#include <algorithm>

#include <gmock/gmock.h>

#include "base/error.h"

namespace ddpm::layout {
namespace {

std::string refusal_of(const Parallelism& parallelism, int64_t ranks = 1) {
  try {
    refuse_combinations(parallelism, ranks);
  } catch (const base::ConfigError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(Parallelism, DefaultsWork) { EXPECT_EQ(refusal_of(Parallelism{}), "accepted"); }

TEST(Parallelism, TheBatchDividesByMicroSizeAndRanks) {
  EXPECT_EQ(refusal_of({.global_size = 24, .micro_size = 3}, 4), "accepted");
  EXPECT_EQ(refusal_of({.global_size = 25, .micro_size = 3}, 4),
            "batch.global_size = 25 does not divide into micro-batches: it must be a positive multiple of "
            "batch.micro_size × data-parallel ranks = 3 × 4 = 12");
  EXPECT_NE(refusal_of({.global_size = 16, .micro_size = int64_t{1} << 40}, int64_t{1} << 40), "accepted");
}

TEST(Parallelism, ShardsTimesReplicasAreTheRanks) {
  const auto with = [](std::optional<int64_t> shard, std::optional<int64_t> replicate) {
    return refusal_of({.zero_stage = 1, .global_size = 8, .dp_shard_size = shard, .dp_replicate_size = replicate}, 8);
  };
  EXPECT_EQ(with({}, {}), "accepted");
  EXPECT_EQ(with(4, {}), "accepted");
  EXPECT_EQ(with({}, 8), "accepted");
  EXPECT_EQ(with(2, 4), "accepted");
  EXPECT_EQ(with(2, 2),
            "parallel.dp_shard_size = 2 × parallel.dp_replicate_size = 2 is 4; it must be the number of ranks, 8");
  EXPECT_EQ(with(3, {}), "parallel.dp_shard_size = 3 for 8 ranks; wanted: a divisor of 8");
  EXPECT_EQ(with({}, 16), "parallel.dp_replicate_size = 16 for 8 ranks; wanted: a divisor of 8");
}

TEST(Parallelism, TilesAreTheInnermostAxisAndSeeTheSameImages) {
  const Parallelism p{.zero_stage = 2, .global_size = 8, .dp_shard_size = 2, .tiles = 4};
  EXPECT_EQ(p.data_parallel_size(16), 4);
  EXPECT_EQ(p.viewers(16), "4 groups of 4 tiles");
  EXPECT_EQ(p.batch_text(16, "image"), "4 groups of 4 tiles × 1 image × 2 accumulation steps");
  const Mesh mesh = p.mesh(16);
  EXPECT_EQ(mesh.ranks(0, Axis::spatial), (std::vector<int64_t>{0, 1, 2, 3}));
  EXPECT_EQ(mesh.ranks(1, Axis::shard), (std::vector<int64_t>{1, 5}));
  EXPECT_EQ(mesh.coordinate(9, kDataParallel), 2);
  EXPECT_EQ(mesh.degree(kReplicas), 8);
  EXPECT_EQ(refusal_of(p, 16), "accepted");
  EXPECT_EQ(p.data_parallel_size(1), 1);
  EXPECT_EQ(refusal_of({.global_size = 8, .tiles = 4}, 6),
            "parallel.spatial_size of 4 tiles: 4 ranks see the same images, of 6 ranks; wanted: a multiple of 4");
  EXPECT_EQ(refusal_of({.zero_stage = 1, .global_size = 8, .dp_shard_size = 3, .tiles = 4}, 16),
            "parallel.dp_shard_size = 3 for 4 groups of 4 tiles; wanted: a divisor of 4");
}

TEST(Parallelism, StagesAreTheOutermostAxisAndSeeTheSameImages) {
  const Parallelism p{.zero_stage = 2, .global_size = 8, .dp_shard_size = 2, .tiles = 2, .pipeline_size = 2};
  EXPECT_EQ(p.data_parallel_size(16), 4);
  EXPECT_EQ(p.viewers(16), "4 groups of 2 stages × 2 tiles");
  const Mesh mesh = p.mesh(16);
  EXPECT_EQ(mesh.ranks(3, Axis::pipeline), (std::vector<int64_t>{3, 11}));
  EXPECT_EQ(mesh.coordinate(3, kDataParallel), mesh.coordinate(11, kDataParallel));
  EXPECT_EQ(mesh.ranks(1, kGradients).front(), 8);
  EXPECT_EQ(mesh.degree(kGradients), 8);
  EXPECT_EQ(mesh.degree(kIsland), 16);
  EXPECT_EQ(refusal_of(p, 16), "accepted");
  EXPECT_EQ(refusal_of({.global_size = 8, .tiles = 3, .pipeline_size = 4}, 6),
            "parallel.pipeline_size = 4 × parallel.spatial_size of 3 tiles: 12 ranks see the same images, of 6 "
            "ranks; wanted: a multiple of 12");
  EXPECT_EQ(
      refusal_of({.reproducible = true, .threads_per_rank = 1, .pipeline_size = 2}, 2),
      "run.reproducible = true with parallel.pipeline_size = 2: the gradient's norm is summed in another order; set "
      "it to 1");
}

TEST(Parallelism, PartsOfBlocksAreTheInnermostAxisAndSeeTheSameImages) {
  const Parallelism p{.zero_stage = 2, .global_size = 8, .dp_shard_size = 2, .tiles = 2, .tensor_size = 2};
  EXPECT_EQ(p.data_parallel_size(16), 4);
  EXPECT_EQ(p.viewers(16), "4 groups of 2 tiles × 2 parts");
  const Mesh mesh = p.mesh(16);
  EXPECT_EQ(mesh.ranks(0, Axis::tensor), (std::vector<int64_t>{0, 1}));
  EXPECT_EQ(mesh.ranks(0, Axis::spatial), (std::vector<int64_t>{0, 2}));
  EXPECT_EQ(mesh.ranks(1, kGradients).front(), 1);
  EXPECT_EQ(mesh.degree(kGradients), 8);
  EXPECT_EQ(mesh.degree(kReplicas), 4);
  EXPECT_EQ(refusal_of(p, 16), "accepted");
  EXPECT_EQ(refusal_of({.global_size = 8, .tensor_size = 4}, 6),
            "parallel.tensor_size = 4: 4 ranks see the same images, of 6 ranks; wanted: a multiple of 4");
  EXPECT_EQ(refusal_of({.reproducible = true, .threads_per_rank = 1, .tensor_size = 2}, 2),
            "run.reproducible = true with parallel.tensor_size = 2: what a block's channels add up to is summed in "
            "another order; set it to 1");
}

TEST(Parallelism, ShardsNeedAStage) {
  EXPECT_NE(refusal_of({.global_size = 8, .dp_shard_size = 8}, 8), "accepted");
  EXPECT_EQ(refusal_of({.global_size = 8, .dp_shard_size = 1}, 8), "accepted");
}

TEST(Parallelism, CutsThatDoNotDivideTheRanksAreOneRefusal) {
  EXPECT_EQ(refusals({.global_size = 16, .tiles = 3}, 16).size(), 1U);
  EXPECT_EQ(refusals({.global_size = 16, .tiles = int64_t{1} << 48, .tensor_size = 1 << 24}, 16).size(), 1U);
}

TEST(Parallelism, IslandsAreMoreThanOneCopyOfSeveralRanks) {
  EXPECT_EQ(refusal_of({.zero_stage = 1, .global_size = 4, .sync_every = 3}, 4),
            "parallel.sync_every = 3 with parallel.zero_stage = 1: all ranks share one copy, which has nothing to be "
            "averaged with; set parallel.dp_replicate_size to a divisor of 4 above 1, or parallel.sync_every = 0");
  EXPECT_THAT(refusal_of({.global_size = 4, .tensor_size = 2, .sync_every = 3}, 2),
              testing::StartsWith("parallel.sync_every = 3 with parallel.tensor_size = 2: all ranks share one copy"));
  EXPECT_THAT(refusal_of({.global_size = 4, .tensor_size = 2, .sync_every = 3}, 2),
              testing::EndsWith("averaged with; take 4 ranks or more, or parallel.sync_every = 0"));
  EXPECT_EQ(refusal_of({.global_size = 4, .tensor_size = 2, .sync_every = 3}, 4), "accepted");
  EXPECT_EQ(refusal_of({.zero_stage = 1, .global_size = 4, .dp_replicate_size = 2, .sync_every = 3}, 4), "accepted");
  EXPECT_EQ(refusal_of({.global_size = 4, .sync_every = 3}), "accepted");  // what is left of several
}

TEST(Parallelism, WhatIsSaidOfOneCopyIsAcceptedWhenFollowed) {
  const auto wanted = [](const Parallelism& p, int64_t ranks) {
    const std::string why = refusal_of(p, ranks);
    EXPECT_THAT(why, testing::StartsWith("parallel.sync_every = 3 with parallel.")) << why;
    const std::string before = "averaged with; ";
    const std::size_t first = why.find(before) + before.size();
    return why.substr(first, why.find(", or parallel.sync_every") - first);
  };
  Parallelism p{.zero_stage = 1, .global_size = 8, .dp_shard_size = 4, .sync_every = 3};
  EXPECT_EQ(wanted(p, 4), "set it to a smaller divisor of 4");
  p.dp_replicate_size = 1;
  EXPECT_EQ(wanted(p, 4), "set it to a smaller divisor of 4 and take parallel.dp_replicate_size out");
  p = {.zero_stage = 1, .global_size = 8, .dp_shard_size = 2, .sync_every = 3};
  EXPECT_EQ(refusal_of(p, 4), "accepted");

  p = {.zero_stage = 1, .global_size = 8, .dp_replicate_size = 1, .sync_every = 3};
  EXPECT_THAT(refusal_of(p, 4), testing::HasSubstr("with parallel.dp_replicate_size = 1: "));
  EXPECT_EQ(wanted(p, 4), "set parallel.dp_replicate_size to a divisor of 4 above 1");

  p = {.zero_stage = 1, .global_size = 8, .tensor_size = 4, .sync_every = 3};
  EXPECT_EQ(wanted(p, 4), "take 8 ranks with parallel.dp_replicate_size = 2");
  EXPECT_NE(refusal_of(p, 8), "accepted");
  p.dp_replicate_size = 2;
  EXPECT_EQ(refusal_of(p, 8), "accepted");
  p.dp_replicate_size = 1;
  p.zero_stage = 0;
  EXPECT_EQ(wanted(p, 4), "take 8 ranks with parallel.dp_replicate_size = 2");
  p.dp_replicate_size.reset();
  EXPECT_EQ(wanted(p, 4), "take 8 ranks or more");
  EXPECT_EQ(refusal_of(p, 8), "accepted");
}

TEST(Parallelism, TheNumberOfIslandsIsRefusedAsTrainingRefusesIt) {
  EXPECT_EQ(islands_refusal({.zero_stage = 1, .global_size = 8, .dp_shard_size = 8}, 6), "") << "there are no islands";
  EXPECT_EQ(islands_refusal({.zero_stage = 1, .global_size = 8, .dp_shard_size = 8, .sync_every = 4}, 6),
            "parallel.dp_shard_size = 8 for 6 ranks; wanted: a divisor of 6");
  EXPECT_EQ(islands_refusal({.global_size = 8, .tiles = 4, .sync_every = 4}, 6),
            "parallel.spatial_size of 4 tiles: 4 ranks see the same images, of 6 ranks; wanted: a multiple of 4");
  EXPECT_THAT(islands_refusal({.zero_stage = 1, .global_size = 8, .sync_every = 4}, 8),
              testing::HasSubstr("all ranks share one copy"));
  EXPECT_EQ(islands_refusal({.global_size = 8, .micro_size = 2, .sync_every = 4}, 8), "")
      << "a smaller micro-batch does";
}

TEST(Parallelism, ABatchIsUnevenWhateverTheMicroBatch) {
  EXPECT_EQ(uneven_batch({.global_size = 8, .micro_size = 2}, 8), "");
  EXPECT_EQ(uneven_batch({.global_size = 8}, 6),
            "batch.global_size = 8 does not divide over 6 ranks; wanted: a multiple of 6");
  EXPECT_EQ(uneven_batch({.global_size = 16, .micro_size = 16, .tensor_size = 2}, 6),
            "batch.global_size = 16 does not divide over 3 groups of 2 parts; wanted: a multiple of 3");
  EXPECT_EQ(uneven_batch({.global_size = 16, .tiles = 4}, 6), "") << "that the tiles do not divide is another refusal";
}

TEST(Parallelism, OnlyStage3HasWeightsToOffload) {
  EXPECT_NE(refusal_of({.zero_stage = 2, .offload = Offload::parameters}), "accepted");
  EXPECT_EQ(refusal_of({.zero_stage = 3, .offload = Offload::parameters}), "accepted");
  EXPECT_EQ(refusal_of({.offload = Offload::optimizer}), "accepted");
}

TEST(Parallelism, AllRefusalsAreListed) {
  const Parallelism all{.reproducible = true,
                        .zero_stage = 2,
                        .gradient_compression = GradientCompression::bf16,
                        .global_size = 16,
                        .micro_size = 5,
                        .dp_shard_size = 2};
  EXPECT_EQ(refusals(all, 3).size(), 6U);
  EXPECT_TRUE(refusals(Parallelism{}, 1).empty());
}

TEST(Parallelism, ReproducibleNeedsPowersOfTwo) {
  const auto with = [](int64_t world, int64_t global, int64_t micro) -> std::string {
    const auto lines =
        refusals({.reproducible = true, .threads_per_rank = 1, .global_size = global, .micro_size = micro}, world);
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
  EXPECT_EQ(refusal_of({.reproducible = false, .global_size = 96, .micro_size = 8}, 3), "accepted");
}

TEST(Parallelism, ReproducibleNeedsAFixedNumberOfThreads) {
  EXPECT_THAT(refusal_of({.reproducible = true}), testing::HasSubstr("run.threads_per_rank = 0"));
  EXPECT_EQ(refusal_of({.reproducible = true, .threads_per_rank = 2}), "accepted");
}

TEST(Parallelism, AStageThatSharesNothingIsTold) {
  EXPECT_EQ(state_of_one({.zero_stage = 3, .global_size = 8, .tiles = 8}, 8),
            "parallel.zero_stage = 3: a group that shares the state has one member (1 group of 8 tiles with images of "
            "their own), so that nothing is shared; wanted: 0, which sends less");
  EXPECT_NE(state_of_one({.zero_stage = 1, .global_size = 8, .dp_shard_size = 1}, 4), "");
  EXPECT_EQ(state_of_one({.zero_stage = 3, .global_size = 8, .tiles = 4}, 8), "");
  EXPECT_EQ(state_of_one({.zero_stage = 0, .global_size = 8, .tiles = 8}, 8), "");
  EXPECT_EQ(state_of_one({.zero_stage = 3, .global_size = 8}, 1), "");
}

TEST(Parallelism, OneIslandIsTold) {
  EXPECT_THAT(island_of_one({.global_size = 8, .sync_every = 4}, 1),
              testing::StartsWith("parallel.sync_every = 4: there is one island"));
  EXPECT_EQ(island_of_one({.global_size = 8, .sync_every = 4}, 2), "");
  EXPECT_EQ(island_of_one({.global_size = 8}, 1), "");
  EXPECT_EQ(warnings({.zero_stage = 3, .global_size = 8, .tiles = 8}, 8).size(), 1U);
  EXPECT_EQ(warnings({.global_size = 8, .sync_every = 4}, 2).size(), 0U);

  const Parallelism islands{.global_size = 8, .sync_every = 20};
  EXPECT_EQ(islands.islands_text(2), ", in 2 islands with an outer step every 20 steps");
  EXPECT_EQ(Parallelism{.global_size = 8}.islands_text(2), "");
}

TEST(Parallelism, ReproducibleNeedsWholeGradientsInFloat32) {
  EXPECT_EQ(refusal_of({.reproducible = true, .threads_per_rank = 1, .zero_stage = 1}), "accepted");
  EXPECT_THAT(refusal_of({.reproducible = true, .threads_per_rank = 1, .zero_stage = 2}),
              testing::HasSubstr("parallel.zero_stage = 2"));
  EXPECT_THAT(
      refusal_of({.reproducible = true, .threads_per_rank = 1, .gradient_compression = GradientCompression::bf16}),
      testing::HasSubstr("gradient_compression"));
}

TEST(Parallelism, WhatAnotherNumberOfRanksWouldAllowIsToldApart) {
  const Parallelism uneven{.global_size = 8};
  EXPECT_EQ(refusals(uneven, 3).size(), 1U);
  EXPECT_NO_THROW(refuse_on_any_ranks(uneven));
  const Parallelism offload{.offload = Offload::parameters};
  EXPECT_EQ(refusals(offload, 1).size(), 1U);
  EXPECT_THROW(refuse_on_any_ranks(offload), base::ConfigError);
}

// What training, a dry run and a plan begin with: refused, or made without an error.
TEST(Parallelism, WhatIsNotRefusedHasAMeshAndABatch) {
  int64_t accepted = 0;
  for (int64_t ranks = 1; ranks <= 12; ++ranks) {
    for (int64_t stage = 0; stage <= 3; ++stage) {
      for (int64_t shard = 0; shard <= 13; ++shard) {  // 0 stands for a key that is not set
        for (int64_t replicate = 0; replicate <= 13; ++replicate) {
          Parallelism asked{.zero_stage = stage, .global_size = 2 * ranks};
          if (shard > 0) asked.dp_shard_size = shard;
          if (replicate > 0) asked.dp_replicate_size = replicate;
          if (!refusals(asked, ranks).empty()) continue;
          ++accepted;
          const Mesh mesh = asked.mesh(ranks);
          EXPECT_EQ(mesh.size(), ranks);
          EXPECT_EQ(mesh.degree(kDataParallel), ranks);
          EXPECT_EQ(asked.data_parallel_size(ranks), ranks);
          EXPECT_EQ(mesh.degree(Axis::shard), stage == 0  ? 1
                                              : shard > 0 ? shard
                                                          : ranks / std::max<int64_t>(replicate, 1));
          EXPECT_EQ(asked.batch(mesh).accumulation_steps(), 2);
        }
      }
    }
  }
  EXPECT_GT(accepted, 12 * 4);
}

}  // namespace
}  // namespace ddpm::layout
