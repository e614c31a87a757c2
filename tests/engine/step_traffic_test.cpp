// How often, and how much, a rank talks to the others in one optimizer step: the table "Who holds what" of
// docs/parallel.md, as formulas of the model's parameters.
#include <array>
#include <numeric>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/round_up.h"
#include "denoise/denoising_loss.h"
#include "engine/sharded_training.h"
#include "layout/batch_layout.h"
#include "layout/shard_layout.h"
#include "support/fake_communicator.h"
#include "train/unet_state.h"

namespace ddpm::engine::test {
namespace {

using ddpm::test::Operation;
using ddpm::test::Traffic;

constexpr int64_t kBatch = 16;  // 4 micro-batches of 4 ranks
constexpr int64_t kBucket = 4 * layout::kShardBlock;
constexpr int64_t kVotes = 3;
constexpr int kRank = 1;  // its place in its shard group and the number of that group always differ

struct Layout {
  int64_t stage;
  int64_t ranks;
  int64_t shard;
  int64_t micro_batches;
  std::string precision;
  parallel::GradientCompression compression = parallel::GradientCompression::none;
  [[nodiscard]] std::string text() const {
    return fmt::format("stage {}, {} ranks in groups of {}, {} micro-batches, {}, {} bytes per gradient", stage, ranks,
                       shard, micro_batches, precision, gradient_bytes());
  }
  [[nodiscard]] int64_t gradient_bytes() const { return compression == parallel::GradientCompression::none ? 4 : 2; }
};

struct StepTraffic {
  Traffic all_reduce;
  Traffic reduce_scatter;
  Traffic all_gather;
};

/// Elements of each unit's parameters, each of which begins on a border of a flat buffer.
std::vector<int64_t> unit_elements() {
  const train::UNetState model(tiny_unet(), 0, at::kFloat, at::kCPU, {});
  std::vector<int64_t> units;
  for (const auto& entry : model.arena.entries()) {
    if (std::ssize(units) <= entry.unit) units.resize(static_cast<std::size_t>(entry.unit) + 1);
    const int64_t count =
        std::accumulate(entry.shape.begin(), entry.shape.end(), int64_t{1}, std::multiplies<int64_t>());
    units.back() += base::round_up(count, layout::kFlatAlignment);
  }
  return units;
}

/// What docs/parallel.md says of stages 0 to 2. F: elements of a flat buffer in whole parts.
StepTraffic expected_of_buckets(const Layout& chosen) {
  const std::vector<int64_t> units = unit_elements();
  const int64_t elements = std::accumulate(units.begin(), units.end(), int64_t{0});
  const int64_t flat = base::round_up(elements, chosen.shard * layout::kShardBlock);
  const int64_t buckets = (flat + kBucket - 1) / kBucket;
  const int64_t reductions = chosen.stage == 2 ? chosen.micro_batches : 1;
  const Traffic sums{reductions * buckets, reductions * flat * chosen.gradient_bytes()};
  if (chosen.shard == 1) return {.all_reduce = sums, .reduce_scatter = {}, .all_gather = {}};
  const int64_t weight = chosen.precision == "no" ? 4 : 2;
  StepTraffic traffic{.all_reduce = {}, .reduce_scatter = sums, .all_gather = {buckets, flat * weight}};
  if (chosen.shard < chosen.ranks) traffic.all_reduce = {buckets, flat / chosen.shard * chosen.gradient_bytes()};
  return traffic;
}

/// What it says of stage 3: the last unit stays between its forward and its backward.
StepTraffic expected_of_units(const Layout& chosen) {
  int64_t count = 0;
  int64_t flat = 0;
  int64_t last = 0;
  for (const int64_t elements : unit_elements()) {
    if (elements == 0) continue;
    last = base::round_up(elements, chosen.shard * layout::kFlatAlignment);
    flat += last;
    ++count;
  }
  const int64_t micro = chosen.micro_batches;
  const int64_t weight = chosen.precision == "no" ? 4 : 2;
  const Traffic sums{micro * count, micro * flat * chosen.gradient_bytes()};
  StepTraffic traffic{.all_reduce = {},
                      .reduce_scatter = sums,
                      .all_gather = {micro * (2 * count - 1), micro * (2 * flat - last) * weight}};
  if (chosen.shard < chosen.ranks) traffic.all_reduce = {count, flat / chosen.shard * chosen.gradient_bytes()};
  return traffic;
}

/// One small sum carries losses, votes, the squares of the gradient and whether it is finite.
StepTraffic expected(const Layout& chosen) {
  StepTraffic traffic = chosen.stage == 3 ? expected_of_units(chosen) : expected_of_buckets(chosen);
  ++traffic.all_reduce.calls;
  traffic.all_reduce.bytes +=
      static_cast<int64_t>(sizeof(double)) * (static_cast<int64_t>(denoise::LossSums::kCount) + kVotes + 2);
  return traffic;
}

ddpm::test::TrafficCounts& counts_of(const Layout& chosen, int steps, ddpm::test::TrafficCounts& counts) {
  const auto shard = static_cast<int>(chosen.shard);
  const auto ranks = static_cast<int>(chosen.ranks);
  const auto place = [shard, ranks](int color, int /*key*/) {
    return color == kRank / shard ? ddpm::test::FakeCommunicator::Place{kRank % shard, shard}
                                  : ddpm::test::FakeCommunicator::Place{kRank / shard, ranks / shard};
  };
  ddpm::test::FakeCommunicator comm(kRank, ranks, counts, place);
  TrainingCase one;
  one.parallel.zero_stage = chosen.stage;
  if (chosen.stage > 0) one.parallel.dp_shard_size = chosen.shard;
  one.parallel.bucket_mib = static_cast<double>(kBucket) * 4.0 / (1024.0 * 1024.0);
  one.parallel.gradient_compression = chosen.compression;
  one.mixed_precision = chosen.precision;
  one.votes = kVotes;
  one.change_rules = [&](StepRules& rules) {
    rules.layout = layout::BatchLayout::make(kBatch, kBatch / chosen.ranks / chosen.micro_batches, chosen.ranks);
    rules.compare_replicas_every = 0;
  };
  train(one, comm, steps);
  return counts;
}

/// What a third step adds to two.
void expect_traffic(const Layout& chosen) {
  SCOPED_TRACE(chosen.text());
  ddpm::test::TrafficCounts two;
  ddpm::test::TrafficCounts three;
  counts_of(chosen, 2, two);
  counts_of(chosen, 3, three);
  const auto expect = [&](Operation operation, const char* name, const Traffic& wanted) {
    EXPECT_EQ(three[operation].calls - two[operation].calls, wanted.calls) << "calls of " << name;
    EXPECT_EQ(three[operation].bytes - two[operation].bytes, wanted.bytes) << "bytes of " << name;
  };
  const StepTraffic wanted = expected(chosen);
  expect(Operation::all_reduce, "all_reduce", wanted.all_reduce);
  expect(Operation::reduce_scatter, "reduce_scatter", wanted.reduce_scatter);
  expect(Operation::all_gather, "all_gather", wanted.all_gather);
  for (const Operation other : {Operation::broadcast, Operation::barrier, Operation::send, Operation::receive}) {
    expect(other, "another operation", {});
  }
}

TEST(StepTraffic, AStepSendsWhatItsStageNeedsAndNothingElse) {
  for (int64_t stage = 0; stage <= 3; ++stage) {
    for (const int64_t ranks : {2, 4}) {
      for (int64_t shard = stage == 0 ? 1 : 2; shard <= (stage == 0 ? 1 : ranks); shard *= 2) {
        for (const int64_t micro_batches : {1, 4}) expect_traffic({stage, ranks, shard, micro_batches, "no"});
      }
    }
  }
}

/// Communicators that one training has made where gradients are, and in host memory, which is one of them here.
int64_t communicators_of(const Layout& chosen) {
  ddpm::test::TrafficCounts counts;
  counts_of(chosen, 1, counts);
  return counts[Operation::split].calls + counts[Operation::duplicate].calls;
}

// On a GPU each takes memory of the device. TrainingCase's own groups, and the shard group in host memory, are in the
// number: the gradients' and the weights' are one, two or four.
TEST(StepTraffic, ATrainingMakesTheCommunicatorsItNeeds) {
  for (int64_t stage = 0; stage <= 3; ++stage) {
    SCOPED_TRACE(stage);
    if (stage == 0) {
      EXPECT_EQ(communicators_of({stage, 4, 1, 1, "no"}), 1 + 1);
    } else {
      EXPECT_EQ(communicators_of({stage, 4, 4, 1, "no"}), 2 + 1 + 1);
      EXPECT_EQ(communicators_of({stage, 4, 2, 1, "no"}), 4 + 3 + 1);
    }
  }
}

TEST(StepTraffic, WeightsOf16BitsTravelAsSuch) {
  for (int64_t stage = 0; stage <= 3; ++stage) expect_traffic({stage, 4, stage == 0 ? 1 : 4, 4, "bf16"});
}

TEST(StepTraffic, CompressedGradientsTravelAsSuchBetweenCopiesToo) {
  for (int64_t stage = 0; stage <= 3; ++stage) {
    expect_traffic({stage, 4, stage == 0 ? 1 : 2, 4, "no", parallel::GradientCompression::bf16});
  }
}

}  // namespace
}  // namespace ddpm::engine::test
