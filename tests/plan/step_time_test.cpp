#include "plan/step_time.h"

#include <gtest/gtest.h>

#include "plan/sizes.h"

namespace ddpm::plan {
namespace {

double ring(CollectiveKind kind, Group group, int64_t bytes) {
  return seconds_of({.kind = kind, .what = "", .group = group, .calls = 1, .buffer_bytes = bytes}, round_machine());
}

TEST(StepTime, ARingTakesAlphaAndBeta) {
  const Group four{.local = 4};
  EXPECT_DOUBLE_EQ(ring(CollectiveKind::reduce_scatter, four, 10'000'000), 3e-6 + 0.75e-3);
  EXPECT_DOUBLE_EQ(ring(CollectiveKind::all_gather, four, 10'000'000), 3e-6 + 0.75e-3);
  EXPECT_DOUBLE_EQ(ring(CollectiveKind::all_reduce, four, 10'000'000), 2 * (3e-6 + 0.75e-3));
  EXPECT_DOUBLE_EQ(ring(CollectiveKind::all_reduce, {.nodes = 2}, 10'000'000), 2 * (10e-6 + 0.5e-2));
  EXPECT_DOUBLE_EQ(ring(CollectiveKind::all_reduce, {}, 10'000'000), 0.0);
}

TEST(StepTime, TwoLevelsAddUpAndShareTheNetwork) {
  const double within = 3e-6 + 0.75e-3;
  EXPECT_DOUBLE_EQ(ring(CollectiveKind::all_reduce, {.nodes = 2, .local = 4}, 10'000'000),
                   2 * (within + 10e-6 + 0.5e-2));
  EXPECT_DOUBLE_EQ(ring(CollectiveKind::reduce_scatter, {.nodes = 2, .sharers = 4}, 10'000'000), 10e-6 + 4 * 0.5e-2);
}

/// Bytes that a rank sends, of all lines.
int64_t sent(int64_t stage, int64_t shard, bool mixed = false) {
  const ModelSizes model = model_of(4, 4 * kBlock);
  int64_t bytes = 0;
  for (const Traffic& line :
       traffic_of(model, {.ranks_per_node = 4,
                         .parallelism = {.zero_stage = stage, .global_size = 8, .dp_shard_size = shard},
                         .mixed_precision = mixed})) {
    bytes += line.sent_bytes();
  }
  return bytes;
}

// Rajbhandari et al. 2020, section 7: 2Ψ for stages 0 to 2, 3Ψ for stage 3; here stages 2 and 3 scatter per
// micro-batch.
TEST(StepTime, VolumesAreThoseOfThePaper) {
  const int64_t psi = 4 * 16 * kBlock * 3 / 4;  // float32, (n-1)/n of it
  EXPECT_EQ(sent(0, 1), 2 * psi);
  EXPECT_EQ(sent(1, 4), 2 * psi);
  EXPECT_EQ(sent(2, 4), 3 * psi);      // two accumulation steps, and the weights once
  EXPECT_EQ(sent(3, 4), 2 * 3 * psi);  // scatter, and gather for forward and for backward
  EXPECT_EQ(sent(1, 4, /*mixed=*/true), psi + psi / 2);
}

TEST(StepTime, CopiesOfAShardedModelAgreeOnTheirPartsOncePerStep) {
  const ModelSizes model = model_of(4, 4 * kBlock);
  const auto lines = traffic_of(
      model,
      {.nodes = 2, .ranks_per_node = 4, .parallelism = {.zero_stage = 3, .global_size = 16, .dp_shard_size = 4}});
  ASSERT_EQ(lines.size(), 3U);
  EXPECT_EQ(lines[1].what, "gradient parts");
  EXPECT_EQ(lines[1].group.nodes, 2);
  EXPECT_EQ(lines[1].group.sharers, 4);
  EXPECT_EQ(lines[1].sent_bytes(), 4 * 4 * kBlock);
  EXPECT_EQ(lines[2].group.nodes, 1);
}

TEST(StepTime, AGroupIsAllTheRanksOfTheMesh) {
  const auto lines_of = [](int64_t nodes, int64_t ranks_per_node, int64_t shard) {
    return traffic_of(model_of(4, 4 * kBlock),
                      {.nodes = nodes,
                       .ranks_per_node = ranks_per_node,
                       .parallelism = {.zero_stage = 1, .global_size = 12, .dp_shard_size = shard}});
  };
  const std::vector<Traffic> across = lines_of(3, 4, 6);  // four ranks on one node and two on the next
  EXPECT_EQ(across[0].group.size(), 6);
  EXPECT_EQ(across[0].group.local, 1);
  EXPECT_EQ(across[0].group.sharers, 4);
  EXPECT_EQ(across[1].group.size(), 2);
  EXPECT_EQ(across[1].group.nodes, 2);
  const std::vector<Traffic> uneven = lines_of(2, 6, 4);  // the parts' ranks are 0, 4 and 8
  EXPECT_EQ(uneven[0].group.nodes, 2);                    // ranks 4 to 7, the others share a node
  EXPECT_EQ(uneven[0].group.local, 2);
  EXPECT_EQ(uneven[0].group.sharers, 1);
  EXPECT_EQ(uneven[1].group.size(), 3);
  EXPECT_EQ(uneven[1].group.local, 1);
}

TEST(StepTime, TheSlowestGroupOfTheMeshCounts) {
  const auto parts = [](int64_t nodes, int64_t ranks_per_node, int64_t tensor) {
    ModelSizes model = model_of(4, 4 * kBlock);
    model.channel_sums = 1;
    model.channel_bytes = 1'000'000;
    return traffic_of(model, {.nodes = nodes,
                              .ranks_per_node = ranks_per_node,
                              .parallelism = {.global_size = 12, .tensor_size = tensor}})
        .back();
  };
  EXPECT_EQ(parts(2, 8, 4).group.nodes, 1);
  EXPECT_EQ(parts(2, 6, 4).group.nodes, 2);  // ranks 4 to 7 lie on both
  EXPECT_EQ(parts(2, 6, 4).group.local, 2);
  EXPECT_EQ(parts(4, 6, 8).group.local, 1);  // six and two
  EXPECT_EQ(parts(4, 4, 8).group.local, 4);
  EXPECT_EQ(parts(4, 4, 8).group.sharers, 1);
  EXPECT_GT(seconds_of(parts(2, 6, 4), round_machine()), seconds_of(parts(2, 8, 4), round_machine()));
}

TEST(StepTime, BytesOfVeryManyImagesDoNotOverflow) {
  ModelSizes model = model_of(4, 4 * kBlock);
  model.activation_images = 400'000;
  model.channel_sums = 1;
  model.channel_bytes = 100'000'000 * model.activation_images;
  const Arrangement a{.ranks_per_node = 2,
                      .parallelism = {.global_size = 800'000, .micro_size = 400'000, .tensor_size = 2}};
  EXPECT_EQ(traffic_of(model, a).back().buffer_bytes, 2 * model.channel_bytes);
}

TEST(StepTime, OneRankOnlyComputes) {
  ModelSizes model = model_of(4, 4 * kBlock);
  const Arrangement a{.parallelism = {.global_size = 10, .micro_size = 10}};
  const StepTime time = step_time(model, a, round_machine());
  EXPECT_DOUBLE_EQ(time.forward, 0.03);
  EXPECT_DOUBLE_EQ(time.backward, 0.06);
  EXPECT_EQ(time.exposed, 0.0);
  model.checkpointing = parallel::ActivationCheckpointing::blocks;
  EXPECT_DOUBLE_EQ(step_time(model, a, round_machine()).backward, 0.09);
  model.checkpointing = parallel::ActivationCheckpointing::attention;
  EXPECT_DOUBLE_EQ(step_time(model, a, round_machine()).backward, 0.07);
}

TEST(StepTime, OverlapHidesAllButTheLastBucket) {
  const ModelSizes model = model_of(4, 4 * kBlock);
  Arrangement a{.nodes = 2, .parallelism = {.global_size = 200, .micro_size = 100}, .overlap = false};
  a.bucket_mib = 4.0 * static_cast<double>(4 * kBlock) / (1024.0 * 1024.0);
  const StepTime open = step_time(model, a, round_machine());
  EXPECT_DOUBLE_EQ(open.exposed, open.communication);
  a.overlap = true;
  const StepTime hidden = step_time(model, a, round_machine());
  EXPECT_DOUBLE_EQ(hidden.communication, open.communication);
  EXPECT_NEAR(hidden.exposed, open.communication / 4, 1e-9);
  EXPECT_GT(hidden.efficiency(), open.efficiency());
}

TEST(StepTime, APipelineWaitsForOthersAndForWhatPassesItsCuts) {
  ModelSizes model = model_of(4, 4 * kBlock);
  model.stage_messages = 1;
  model.stage_bytes = 4'000'000;
  model.hop_bytes = 8'000'000;
  const Arrangement a{.nodes = 2, .parallelism = {.global_size = 8, .micro_size = 2, .pipeline_size = 2}};
  const StepTime time = step_time(model, a, round_machine());
  EXPECT_DOUBLE_EQ(time.forward + time.backward, 0.072);
  EXPECT_NEAR(time.bubble, 0.072 / 4 + 2e-3 + 20e-6, 1e-12);  // 4 micro-batches of 2 of the 8 images
  EXPECT_NEAR(time.exposed, 4 * (1e-3 + 10e-6), 1e-12);
}

}  // namespace
}  // namespace ddpm::plan
