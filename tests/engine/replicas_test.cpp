#include "engine/replicas.h"

#include <vector>

#include <ATen/ops/arange.h>
#include <gtest/gtest.h>

#include "engine/sharded_training.h"
#include "support/fake_communicator.h"
#include "train/unet_state.h"

namespace ddpm::engine::test {
namespace {

using ddpm::test::FakeCommunicator;
using ddpm::test::Operation;
using ddpm::test::TrafficCounts;

TEST(Fingerprint, IsTheSameWhereverItIsComputed) {
  const at::Tensor values = at::arange(3 << 19, at::kFloat).sin();
  for (const uint64_t first : {uint64_t{0}, uint64_t{1'000'000'007}}) {
    const uint64_t wanted =
        fingerprint({values.const_data_ptr<float>(), static_cast<std::size_t>(values.numel())}, first);
    EXPECT_EQ(fingerprint_on_device(values, first), wanted);
  }
  const at::Tensor half = values.to(at::kBFloat16);
  const at::Tensor rounded = half.to(at::kFloat);
  EXPECT_EQ(fingerprint_on_device(half, 5),
            fingerprint({rounded.const_data_ptr<float>(), static_cast<std::size_t>(rounded.numel())}, 5));
}

TEST(Replicas, WhereNoneAreThereNoneAreCompared) {
  struct Case {
    int64_t stage;
    int ranks;
    int64_t parts;
    bool replicas;
  };
  for (const Case& one :
       {Case{0, 1, 1, false}, Case{3, 4, 4, false}, Case{0, 2, 1, true}, Case{1, 2, 2, true}, Case{3, 4, 2, true}}) {
    SCOPED_TRACE(fmt::format("stage {}, {} ranks, {} parts", one.stage, one.ranks, one.parts));
    TrafficCounts counts;
    FakeCommunicator world(0, one.ranks, counts);
    const train::UNetState state(tiny_unet(), 0, at::kFloat, at::kCPU, {.zero_stage = one.stage, .parts = one.parts});
    const layout::Mesh mesh = layout::Parallelism{.zero_stage = one.stage, .dp_shard_size = one.parts}.mesh(one.ranks);
    EXPECT_EQ(has_replicas(state, mesh), one.replicas);
    compare_replicas(state, mesh, world);
    EXPECT_EQ(counts[Operation::all_gather].calls > 0, one.replicas);
  }
}

// A model of Fourier embeddings has a fixed tensor, in the first stage alone.
TEST(Replicas, StagesOfAPipelineAnswerAlikeWhateverTheyHold) {
  const layout::Mesh mesh = layout::Parallelism{.zero_stage = 3, .dp_shard_size = 2, .pipeline_size = 2}.mesh(4);
  nn::UNet2DConfig fourier = tiny_unet();
  fourier.time_embedding_type = nn::TimeEmbedding::fourier;
  const train::UNetState first(fourier, 0, at::kFloat, at::kCPU, {.zero_stage = 3, .parts = 2});
  const train::UNetState last(tiny_unet(), 0, at::kFloat, at::kCPU, {.zero_stage = 3, .parts = 2});
  EXPECT_FALSE(first.fixed.empty());
  EXPECT_TRUE(last.fixed.empty());
  EXPECT_EQ(has_replicas(first, mesh), has_replicas(last, mesh));
}

TEST(Replicas, RanksAreComparedWithTheirGroupWhereverItsAxisStands) {
  using layout::Axis;
  const std::vector<std::string> held = {"a", "a", "b", "b", "a", "c"};
  const layout::Mesh inner({{.axis = Axis::shard, .ranks = 3}, {.axis = Axis::replicate, .ranks = 2}}, 6);
  EXPECT_EQ(odd_ranks(inner, Axis::replicate, held), (std::vector<int64_t>{5})) << "groups are 0 1, 2 3, 4 5";
  const layout::Mesh outer({{.axis = Axis::replicate, .ranks = 2}, {.axis = Axis::shard, .ranks = 3}}, 6);
  EXPECT_EQ(odd_ranks(outer, Axis::replicate, held), (std::vector<int64_t>{3, 5})) << "groups are 0 3, 1 4, 2 5";
  EXPECT_EQ(odd_ranks(outer, layout::kDataParallel, held), (std::vector<int64_t>{2, 3, 5}));
  EXPECT_EQ(odd_ranks(outer, Axis::shard, held), (std::vector<int64_t>{2, 4, 5})) << "groups are 0 1 2, 3 4 5";
}

TEST(Replicas, OneRankDoesNotWaitForItsDeviceToBeCompared) {
  TrafficCounts counts;
  FakeCommunicator world(0, 1, counts);
  TrainingCase chosen;
  chosen.ahead = true;
  chosen.change_rules = [](StepRules& rules) {
    rules.device_update = true;
    rules.compare_replicas_every = 1;
  };
  EXPECT_EQ(train(chosen, world, 4).most_under_way, 2);
}

}  // namespace
}  // namespace ddpm::engine::test
