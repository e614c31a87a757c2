// Whole steps of training on an asynchronous device (support/fake_device.h): nothing that streams do is left unordered,
// no memory is given back too early, the host waits for what it reads, and weights become those of the host.
#include <array>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <gmock/gmock.h>

#include "base/file_system.h"
#include "denoise/batch_stager.h"
#include "engine/step_case.h"
#include "nn/ops/as_on_cuda.h"
#include "parallel/gradient_reducer.h"
#include "parallel/groups.h"
#include "parallel/parameter_arena.h"
#include "parallel/weight_gatherer.h"
#include "run/saver.h"
#include "run/snapshot.h"
#include "support/fake_device.h"
#include "support/mpi_test.h"
#include "support/relative_distance.h"

namespace ddpm::engine::test {
namespace {

using testing::IsEmpty;

/// What a case is about, without what it is trained on.
struct Settings {
  std::string precision = "no";
  std::string parallel = "";
  std::string run = "";
  bool recorded = true;  ///< in steps that are recorded, too

  [[nodiscard]] StepCase training() const {
    return {
        .precision = precision, .steps = precision == "fp16" ? kScaledSteps : kSteps, .parallel = parallel, .run = run};
  }
};

class AsyncDevice : public StepCaseTest {
 protected:
  Trained on_device(StepCase chosen) {
    chosen.device = ddpm::test::fake_device();
    chosen.data_parallel = ddpm::test::on_fake_device(ddpm::test::world());
    Trained trained = train(std::move(chosen));
    ddpm::test::finish();
    EXPECT_THAT(ddpm::test::StreamOrder::instance().take_faults(), IsEmpty());
    return trained;
  }

  /// On the device, launched one by one and recorded, against the host.
  void expect_training_of_the_host(const Settings& settings) {
    SCOPED_TRACE(settings.precision + " " + settings.parallel + " " + settings.run);
    const nn::AsOnCuda products;
    const Trained host = train(settings.training());
    expect_close(on_device(settings.training()), host, settings.precision);
    if (!settings.recorded) return;
    SCOPED_TRACE("recorded");
    StepCase recorded = settings.training();
    recorded.graph = std::make_unique<ddpm::test::FakeGraph>();
    const Trained seen = on_device(std::move(recorded));
    EXPECT_EQ(seen.most_ahead, 2);
    expect_close(seen, host, settings.precision);
  }

  /// The device multiplies in another order than the host's own kernels do.
  static void expect_close(const Trained& seen, const Trained& host, const std::string& precision) {
    const double far = precision == "no" ? 1e-4 : 0.05;
    EXPECT_LT(ddpm::test::relative_distance(seen.weights, host.weights), far);
    ASSERT_EQ(seen.losses.size(), host.losses.size());
    for (std::size_t i = 0; i < host.losses.size(); ++i) {
      EXPECT_NEAR(seen.losses[i], host.losses[i], far * host.losses[i]) << "step " << i;
    }
  }
};

TEST_F(AsyncDevice, EveryStage) {
  for (int stage = 0; stage <= 3; ++stage) {
    expect_training_of_the_host({.parallel = fmt::format("zero_stage = {}\nbucket_mib = 0.01", stage)});
  }
}

TEST_F(AsyncDevice, EveryPrecision) {
  expect_training_of_the_host({.precision = "bf16", .parallel = "zero_stage = 3\nbucket_mib = 0.01"});
  expect_training_of_the_host({.precision = "fp16", .parallel = "bucket_mib = 0.01"});
}

TEST_F(AsyncDevice, StateInHostMemory) {
  for (const std::string precision : {"no", "bf16"}) {
    for (const std::string parallel :
         {"zero_stage = 1\noffload = \"optimizer\"", "zero_stage = 3\noffload = \"optimizer\"",
          "zero_stage = 3\noffload = \"parameters\""}) {
      expect_training_of_the_host({.precision = precision, .parallel = parallel, .recorded = false});
    }
  }
}

TEST_F(AsyncDevice, WithoutOverlap) {
  expect_training_of_the_host({.parallel = "overlap = false"});
  expect_training_of_the_host({.parallel = "overlap = false\nzero_stage = 3"});
}

TEST_F(AsyncDevice, CompressedGradients) {
  expect_training_of_the_host({.precision = "bf16", .parallel = "gradient_compression = \"bf16\"\nzero_stage = 2"});
}

constexpr int64_t kBucketElements = int64_t{1} << 16;

/// The most bytes of the device while the gradients of eight buckets are summed.
int64_t most_bytes_of_sums(parallel::GradientCompression compression) {
  const at::Device device = ddpm::test::fake_device();
  std::array<at::Tensor, 8> weights;
  std::vector<parallel::ArenaParameter> parameters;
  parameters.reserve(weights.size());
  for (at::Tensor& weight : weights) {
    parameters.push_back({fmt::format("weight {}", parameters.size()), {kBucketElements}, &weight, 0});
  }
  parallel::ParameterArena arena(parameters, at::kFloat, device, {.segment_elements = kBucketElements});
  const auto ranks = ddpm::test::on_fake_device(ddpm::test::world());
  const parallel::GradientGroups groups(*ranks, layout::Parallelism{}.mesh(ranks->size()));
  parallel::OverlappedReducer reducer(arena, groups, {.compression = compression});
  reducer.begin_step();
  reducer.begin_micro_batch(/*last=*/true);
  at::Tensor sum = at::zeros({1}, at::TensorOptions(at::kFloat).device(device));
  for (const at::Tensor& weight : weights) sum = sum.add(weight.sum());
  ddpm::test::StreamOrder::instance().take_most_bytes();
  sum.backward();
  reducer.end_micro_batch();
  reducer.finalize();
  return ddpm::test::StreamOrder::instance().take_most_bytes();
}

/// A plan counts copies of two buckets.
TEST_F(AsyncDevice, CompressedGradientsHaveCopiesOfTwoBucketsAtATime) {
  if (ddpm::test::world().size() == 1) return;  // nothing is sent
  const int64_t without = most_bytes_of_sums(parallel::GradientCompression::none);
  ddpm::test::finish();
  const int64_t copies = most_bytes_of_sums(parallel::GradientCompression::bf16) - without;
  ddpm::test::finish();
  EXPECT_GT(copies, 0);
  EXPECT_LT(copies, 3 * 2 * kBucketElements);
  EXPECT_THAT(ddpm::test::StreamOrder::instance().take_faults(), IsEmpty());
}

TEST_F(AsyncDevice, ReproducibleSums) {
  expect_training_of_the_host({.parallel = "zero_stage = 1", .run = "reproducible = true"});
}

TEST_F(AsyncDevice, RecomputedActivations) {
  expect_training_of_the_host({.parallel = "activation_checkpointing = \"blocks\"\nzero_stage = 3"});
}

TEST_F(AsyncDevice, IslandsThatMeetNowAndThen) {
  if (ddpm::test::world().size() == 1) return;  // an island has no other to meet
  expect_training_of_the_host({.parallel = "sync_every = 2"});
}

TEST_F(AsyncDevice, TilesOfImages) {
  if (ddpm::test::world().size() == 1) return;  // there is nobody for the other part
  expect_training_of_the_host({.parallel = "spatial_size = 2", .recorded = false});
  expect_training_of_the_host({.parallel = "spatial_size = 2\noverlap = false", .recorded = false});
}

TEST_F(AsyncDevice, PartsOfBlocks) {
  if (ddpm::test::world().size() == 1) return;
  expect_training_of_the_host({.parallel = "tensor_size = 2"});
}

TEST_F(AsyncDevice, StagesOfAPipeline) {
  if (ddpm::test::world().size() == 1) return;
  const std::string stages = fmt::format("pipeline_size = {}", ddpm::test::world().size());
  expect_training_of_the_host({.parallel = stages, .recorded = false});
}

TEST_F(AsyncDevice, CopiesOfShards) {
  if (ddpm::test::world().size() < 4) return;  // copies of two shards
  for (int stage = 1; stage <= 3; ++stage) {
    expect_training_of_the_host(
        {.parallel = fmt::format("zero_stage = {}\nbucket_mib = 0.01\ndp_shard_size = 2", stage)});
  }
}

/// Its memory may have been another tensor's before, and is the next one's afterwards.
TEST_F(AsyncDevice, AStagerMayGoWhileItsCopyIsUnderWay) {
  const data::ImageFormat format{.height = 8, .width = 8, .channels = 3, .dtype = base::DType::u8};
  const at::TensorOptions options = at::TensorOptions(at::kByte).device(ddpm::test::fake_device());
  at::zeros({64}, options).add_(1);
  {
    denoise::BatchStager stager(data::image_fields(format, {}, /*has_labels=*/false), ddpm::test::fake_device());
    data::MicroBatch batch;
    batch.positions = {0, 2};
    batch.values = {std::vector<std::byte>(2 * format.bytes(), std::byte{7})};
    stager.put(batch);
  }
  at::zeros({64}, options).add_(1);
  ddpm::test::finish();
  EXPECT_THAT(ddpm::test::StreamOrder::instance().take_faults(), IsEmpty());
}

TEST_F(AsyncDevice, SnapshotsWhileStepsGoOn) {
  run::Snapshot snapshot;
  StepCase chosen{.precision = "bf16", .parallel = "zero_stage = 1"};
  chosen.after_step = [&](train::UNetState& model, const run::Placement& place) {
    for (const at::Tensor& piece : model.arena.master()) piece.mul_(2).div_(2);  // which the snapshot has to follow
    run::take_snapshot(model, place.replica, snapshot);
    snapshot.wait();
    const at::Tensor weights = model.arena.master().front().to(at::kCPU);
    double of_snapshot = 0.0;
    for (std::size_t i = 0; i < snapshot.slices.size(); ++i) {
      if (snapshot.slices[i].name.starts_with("model/"))
        of_snapshot += snapshot.values[i].square().sum().item<double>();
    }
    double of_model = 0.0;
    for (const at::Tensor& piece : model.arena.master()) of_model += piece.to(at::kCPU).square().sum().item<double>();
    EXPECT_NEAR(of_snapshot, of_model, 1e-4 * of_model);
  };
  on_device(std::move(chosen));
}

/// Takes a snapshot after each step but the last and waits for it after the next one: it has to be what one that is
/// waited for at once is.
class LateSnapshot {
 public:
  void after_step(train::UNetState& model, const run::Placement& place) {
    if (!wanted_.empty()) expect_wanted();
    wanted_.clear();
    if (model.progress.step == kSteps) return;
    run::Snapshot now;
    run::take_snapshot(model, place.replica, now);
    now.wait();
    for (const at::Tensor& values : now.values) wanted_.push_back(values.clone());
    run::take_snapshot(model, place.replica, late_);
  }

 private:
  void expect_wanted() {
    late_.wait();
    ASSERT_EQ(late_.values.size(), wanted_.size());
    for (std::size_t i = 0; i < wanted_.size(); ++i) {
      EXPECT_TRUE(late_.values[i].equal(wanted_[i])) << late_.slices[i].name;
    }
  }

  run::Snapshot late_;
  std::vector<at::Tensor> wanted_;
};

TEST_F(AsyncDevice, AStepChangesTheStateWhenItsSnapshotHasReadIt) {
  for (const bool recorded : {false, true}) {
    SCOPED_TRACE(recorded ? "recorded" : "launched");
    LateSnapshot snapshot;
    StepCase chosen{.precision = "bf16", .parallel = "zero_stage = 1"};
    if (recorded) chosen.graph = std::make_unique<ddpm::test::FakeGraph>();
    chosen.after_step = [&](train::UNetState& model, const run::Placement& place) {
      snapshot.after_step(model, place);
    };
    on_device(std::move(chosen));
  }
}

TEST_F(AsyncDevice, AnAverageTakesThePlaceOfTheWeightsWhenTheirSnapshotHasReadThem) {
  LateSnapshot snapshot;
  StepCase chosen{.parallel = "zero_stage = 1"};
  chosen.after_step = [&](train::UNetState& model, const run::Placement& place) { snapshot.after_step(model, place); };
  chosen.between = [](train::DenoisingStep& step) { step.with_model_weights([](nn::UnitExecutor& /*units*/) {}); };
  on_device(std::move(chosen));
}

/// What has not arrived is not finite there, and such a state would be refused.
TEST_F(AsyncDevice, ACheckpointIsWrittenWhenTheStateHasArrived) {
  comm::Communicator& world = ddpm::test::world();
  const auto files = base::posix_file_system();
  const base::Logger log(world.rank(), world.size());
  const base::Path folder = folder_ / "saved";
  on_rank_0([&] { files->create_directories(folder); });
  const checkpoint::CheckpointConfig config{.async = true};
  checkpoint::CheckpointStore store(*files, world, folder, log);
  int64_t saved = 0;
  run::Saver saver(
      config, store, world, [&](const auto& /*report*/, double /*stall*/) { ++saved; },
      [](const comm::AgreedError& failure) { ADD_FAILURE() << failure.what(); }, [] {});
  StepCase chosen{.parallel = "zero_stage = 1"};
  chosen.after_step = [&](train::UNetState& model, const run::Placement& place) {
    saver.save(model, place.replica, "hash");
    if (model.progress.step == kSteps) saver.drain();
  };
  on_device(std::move(chosen));
  EXPECT_EQ(saved, kSteps);
}

/// A model of one's own need not run its units one after the other.
TEST_F(AsyncDevice, WeightsAreFetchedAndNotUsed) {
  StepCase chosen{.parallel = "zero_stage = 3"};
  chosen.after_step = [](train::UNetState& model, const run::Placement& /*place*/) {
    const auto shard = ddpm::test::on_fake_device(ddpm::test::world());
    parallel::WeightGatherer gatherer(model.arena, *shard, /*overlap=*/true);
    static_cast<void>(gatherer.run(0, [] { return std::vector<at::Tensor>{}; }));  // fetches the next one, too
    gatherer.release_all();
    for (std::size_t unit = 0; unit < 2; ++unit) at::zeros_like(model.arena.unit_weights(unit)).add_(1);
  };
  on_device(std::move(chosen));
}

}  // namespace
}  // namespace ddpm::engine::test
