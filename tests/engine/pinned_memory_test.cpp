// Training on a GPU takes the pinned memory that ddpm plan counts. The fake device says how much is asked for.
#include <optional>
#include <vector>

#include <gtest/gtest.h>

#include "denoise/batch_stager.h"
#include "engine/sharded_training.h"
#include "parallel/offload.h"
#include "plan/memory.h"
#include "plan/model_sizes.h"
#include "run/snapshot.h"
#include "support/fake_device.h"

namespace ddpm::engine::test {
namespace {

constexpr data::ImageFormat kFormat{.height = 8, .width = 8, .channels = 3, .dtype = base::DType::u8};

/// What `work` takes of it.
template <typename Work>
int64_t pinned_by(const Work& work) {
  const int64_t before = ddpm::test::pinned_bytes();
  work();
  return ddpm::test::pinned_bytes() - before;
}

plan::HostMemory planned(const layout::Parallelism& parallelism, bool mixed_precision = false) {
  const plan::ModelSizes sizes = plan::model_sizes(tiny_unet(), kFormat, parallelism.micro_size, mixed_precision,
                                                   parallel::ActivationCheckpointing::none);
  const plan::Arrangement arrangement{.ranks_per_node = parallelism.pipeline_size,
                                      .parallelism = parallelism,
                                      .mixed_precision = mixed_precision,
                                      .averages = 1,
                                      .on_device = true};
  return plan::memory_of(sizes, arrangement, /*process_bytes=*/0).beside;
}

TEST(PinnedMemory, OfBatchesOnTheirWay) {
  for (const int64_t stages : {1, 4}) {
    for (const int64_t images : {1, 2, 5}) {
      data::MicroBatch batch;
      batch.positions = {0, images};
      batch.values = {std::vector<std::byte>(static_cast<std::size_t>(images) * kFormat.bytes())};
      const int64_t taken = pinned_by([&] {
        denoise::BatchStager stager(data::image_fields(kFormat, {}, /*has_labels=*/false), ddpm::test::fake_device(),
                                    stages);
        stager.put(batch);
      });
      EXPECT_EQ(taken, planned({.global_size = images, .micro_size = images, .pipeline_size = stages}).batches);
    }
  }
  ddpm::test::finish();
}

TEST(PinnedMemory, OfStateThatIsOffloaded) {
  struct Case {
    int64_t zero_stage;
    parallel::Offload offload;
  };
  for (const Case& one : {Case{1, parallel::Offload::optimizer}, Case{3, parallel::Offload::optimizer},
                          Case{3, parallel::Offload::parameters}}) {
    for (const bool mixed : {false, true}) {
      SCOPED_TRACE(one.zero_stage);
      const plan::HostMemory wanted = planned({.zero_stage = one.zero_stage, .offload = one.offload}, mixed);
      const parallel::Sharding sharding{.zero_stage = one.zero_stage, .offload = one.offload};
      std::optional<train::UNetState> model;
      const int64_t weights = pinned_by([&] {
        model.emplace(tiny_unet(), 1, mixed ? at::kBFloat16 : at::kFloat, ddpm::test::fake_device(), sharding);
      });
      EXPECT_EQ(weights, wanted.weights);
      EXPECT_EQ(pinned_by([&] { const parallel::OffloadedUpdate update(model->arena); }), wanted.chunks);
      EXPECT_GT(wanted.chunks, 0);
    }
  }
  ddpm::test::finish();
}

// How full the blocks are depends on the shapes of the parameters, which the plan does not know one by one.
TEST(PinnedMemory, OfSnapshots) {
  train::UNetState model(tiny_unet(), 1, at::kFloat, ddpm::test::fake_device(), {});
  run::Snapshot snapshot;
  const auto taken = static_cast<double>(pinned_by([&] { run::take_snapshot(model, {}, snapshot); }));
  const auto wanted = static_cast<double>(planned({}).snapshot);
  EXPECT_NEAR(taken, wanted, 0.25 * wanted);
  EXPECT_EQ(pinned_by([&] {
              snapshot.wait();
              run::take_snapshot(model, {}, snapshot);
            }),
            0)
      << "a later one has the memory of the first";
  snapshot.wait();
  ddpm::test::finish();
}

}  // namespace
}  // namespace ddpm::engine::test
