// Training gives the same weights on any number of ranks and in any layout: each case is compared with one rank that
// has everything.
#include "engine/sharded_training.h"

#include <chrono>
#include <cstring>
#include <map>
#include <thread>

#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/tensor.h>

#include "comm/collectives.h"
#include "support/mpi_test.h"

namespace ddpm::engine::test {
namespace {

constexpr int kSteps = 10;
constexpr int kFewSteps = 4;  // where rounding is expected, and only its size is checked

comm::Communicator& world() { return ddpm::test::world(); }

std::string bytes_of(const void* begin, std::size_t size) { return {static_cast<const char*>(begin), size}; }

/// Waits until rank 0 comes here, too, asleep: a blocking collective would take the processor that rank 0 computes on.
void wait_for_first_rank() {
  double there = 1.0;
  comm::Work work = world().broadcast({&there, 1, base::DType::f64}, 0);
  while (!work.test()) std::this_thread::sleep_for(std::chrono::milliseconds(2));
}

/// Rank 0's numbers, on every rank.
template <typename T>
std::vector<T> of_first_rank(const T* begin, std::size_t count) {
  const std::string bytes = comm::broadcast(world(), bytes_of(begin, count * sizeof(T)));
  std::vector<T> numbers(bytes.size() / sizeof(T));
  std::memcpy(numbers.data(), bytes.data(), bytes.size());
  return numbers;
}

/// Trains the case on rank 0 alone, without any sharing: weights, losses and norms, on every rank. Collective.
const TrainingResult& alone(const TrainingCase& chosen, int steps = kSteps) {
  static std::map<std::string, TrainingResult> known;
  const std::string key = fmt::format("{} {} {} {}", chosen.mixed_precision, chosen.micro_size, chosen.eps, steps);
  const auto found = known.find(key);
  if (found != known.end()) return found->second;
  const auto self = world().split(world().rank(), 0);
  TrainingCase single = chosen;
  single.parallel = {};
  single.reproducible = false;
  TrainingResult result;
  result.weights = at::empty({0});
  if (world().rank() == 0) result = train(single, *self, steps);
  wait_for_first_rank();
  const auto* weights = result.weights.const_data_ptr<float>();
  result.weights = at::tensor(of_first_rank(weights, static_cast<std::size_t>(result.weights.numel())));
  result.losses = of_first_rank(result.losses.data(), result.losses.size());
  result.gradient_norms = of_first_rank(result.gradient_norms.data(), result.gradient_norms.size());
  return known.emplace(key, result).first->second;
}

double worst_relative(const std::vector<double>& a, const std::vector<double>& b) {
  double worst = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) worst = std::max(worst, std::abs(a[i] - b[i]) / std::abs(b[i]));
  return worst;
}

/// Every stage with every shard size; the other choices turn at different speeds, so that pairs of values meet.
std::vector<TrainingCase> cases(int ranks) {
  std::vector<TrainingCase> all;
  const std::vector<int64_t> micro_sizes = {1, 3, 2};
  const std::vector<double> buckets = {0.02, 25.0};
  using parallel::ActivationCheckpointing;
  const std::array recomputed = {ActivationCheckpointing::none, ActivationCheckpointing::blocks,
                                 ActivationCheckpointing::attention};
  std::size_t turn = 0;
  for (int64_t stage = 0; stage <= 3; ++stage) {
    for (int64_t shard = 1; shard <= ranks; ++shard) {
      if (ranks % shard != 0 || (stage == 0 && shard > 1)) continue;
      for (int repeat = 0; repeat < 2; ++repeat, ++turn) {
        TrainingCase one;
        one.parallel.zero_stage = stage;
        if (stage > 0) one.parallel.dp_shard_size = shard;
        one.parallel.overlap = turn % 2 == 0;
        one.parallel.bucket_mib = buckets[turn / 2 % 2];
        one.parallel.activation_checkpointing = recomputed.at(static_cast<std::size_t>(turn % 3));
        one.micro_size = micro_sizes[turn / 3 % 3];
        if (kGlobalSize % (one.micro_size * ranks) != 0) one.micro_size = 1;
        all.push_back(one);
      }
    }
  }
  return all;
}

TEST(ShardedTraining, EveryLayoutEndsWhereOneRankEnds) {
  double worst = 0.0;
  for (const TrainingCase& chosen : cases(world().size())) {
    SCOPED_TRACE(chosen.text());
    const TrainingResult shared = train(chosen, world(), kSteps);
    const double distance = relative_distance(shared.weights, alone(chosen).weights);
    worst = std::max(worst, distance);
    EXPECT_LE(distance, 1e-5);
    EXPECT_LE(worst_relative(shared.losses, alone(chosen).losses), 1e-4);
    EXPECT_LE(worst_relative(shared.gradient_norms, alone(chosen).gradient_norms), 1e-4);
  }
  if (world().rank() == 0) printf("largest relative distance after %d steps: %.1e\n", kSteps, worst);
}

TEST(ShardedTraining, LossAndNormAgreeWithTheDefaultEpsilon) {
  for (int64_t stage = 0; stage <= 3; ++stage) {
    TrainingCase chosen;
    chosen.parallel.zero_stage = stage;
    chosen.eps = 1e-8;
    SCOPED_TRACE(chosen.text());
    const TrainingResult shared = train(chosen, world(), kFewSteps);
    EXPECT_LE(worst_relative(shared.losses, alone(chosen, kFewSteps).losses), 1e-4);
    EXPECT_LE(worst_relative(shared.gradient_norms, alone(chosen, kFewSteps).gradient_norms), 1e-4);
  }
}

TEST(ShardedTraining, Bfloat16FollowsOneRankToItsPrecision) {
  for (int64_t stage = 0; stage <= 3; ++stage) {
    TrainingCase chosen;
    chosen.mixed_precision = "bf16";
    chosen.parallel.zero_stage = stage;
    SCOPED_TRACE(chosen.text());
    EXPECT_LE(relative_distance(train(chosen, world(), kFewSteps).weights, alone(chosen, kFewSteps).weights), 2e-3);
  }
}

TEST(ShardedTraining, CompressedGradientsTrainAlmostAlike) {
  for (int64_t stage = 0; stage <= 3; ++stage) {
    TrainingCase chosen;
    chosen.parallel.zero_stage = stage;
    chosen.parallel.gradient_compression =
        stage % 2 == 0 ? parallel::GradientCompression::bf16 : parallel::GradientCompression::fp16;
    SCOPED_TRACE(chosen.text());
    EXPECT_LE(relative_distance(train(chosen, world(), kFewSteps).weights, alone(chosen, kFewSteps).weights), 2e-3);
  }
}

TEST(ShardedTraining, CompressedGradientsTrainAlmostAlikeBetweenCopies) {
  if (world().size() != 4) return;
  for (int64_t stage = 1; stage <= 3; ++stage) {
    TrainingCase chosen;
    chosen.parallel.zero_stage = stage;
    chosen.parallel.dp_shard_size = 2;
    chosen.parallel.gradient_compression = parallel::GradientCompression::bf16;
    SCOPED_TRACE(chosen.text());
    EXPECT_LE(relative_distance(train(chosen, world(), kFewSteps).weights, alone(chosen, kFewSteps).weights), 2e-3);
  }
}

TEST(ShardedTraining, OffloadChangesNoBit) {
  for (const char* precision : {"no", "bf16"}) {
    for (int64_t stage = 0; stage <= 3; ++stage) {
      TrainingCase chosen;
      chosen.mixed_precision = precision;
      chosen.parallel.zero_stage = stage;
      chosen.parallel.overlap = stage % 2 == 0;
      const TrainingResult there = train(chosen, world(), kFewSteps);
      for (const auto offload : {parallel::Offload::optimizer, parallel::Offload::parameters}) {
        chosen.parallel.offload = offload;
        if (stage < 3 && offload == parallel::Offload::parameters) continue;  // refused
        SCOPED_TRACE(chosen.text());
        const TrainingResult offloaded = train(chosen, world(), kFewSteps);
        EXPECT_TRUE(at::equal(offloaded.weights, there.weights));
        EXPECT_EQ(offloaded.losses, there.losses);
      }
    }
  }
}

TEST(ShardedTraining, ReproducibleWeightsHaveTheSameBitsOnAnyPowerOfTwo) {
  const int ranks = world().size();
  if ((ranks & (ranks - 1)) != 0) return;  // refused by layout::refuse_combinations
  for (const char* precision : {"no", "bf16"}) {
    for (const int64_t stage : {0, 1}) {
      TrainingCase chosen;
      chosen.reproducible = true;
      chosen.mixed_precision = precision;
      chosen.micro_size = 3;  // 4 leaves
      const auto self = world().split(world().rank(), 0);
      const TrainingResult single = train(chosen, *self, kFewSteps);
      chosen.parallel.zero_stage = stage;
      SCOPED_TRACE(chosen.text());
      const TrainingResult shared = train(chosen, world(), kFewSteps);
      EXPECT_TRUE(at::equal(shared.weights, single.weights));
      EXPECT_EQ(shared.gradient_norms, single.gradient_norms);
    }
  }
}

}  // namespace
}  // namespace ddpm::engine::test
