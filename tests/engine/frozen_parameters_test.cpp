// Parameters that are frozen: forward reads them, checkpoints hold them, and training leaves them alone, in every
// stage.
#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include <ATen/ops/allclose.h>
#include <ATen/ops/equal.h>
#include <gmock/gmock.h>

#include "comm/collectives.h"
#include "denoise/unet_tensors.h"
#include "engine/replicas.h"
#include "engine/sharded_training.h"
#include "run/saver.h"
#include "support/mpi_test.h"
#include "support/temporary_folder.h"

namespace ddpm::engine::test {
namespace {

constexpr int kSteps = 3;

comm::Communicator& world() { return ddpm::test::world(); }

/// Whole units at the beginning, in the middle and at the end, and a part of all others.
void freeze(nn::UNet2D& model) {
  const std::set<std::string> whole = {"conv_in", "mid_block.resnets.0", "conv_out"};
  for (const auto& unit : model.units()) {
    for (nn::Parameter* p : unit->parameters()) {
      const bool part = p->name.ends_with("conv2.weight") || p->name.find(".to_q.") != std::string::npos;
      if (part || whole.contains(unit->name())) p->role = base::ParameterRole::frozen;
    }
  }
}

std::map<std::string, at::Tensor> values_of(const TrainingState& state) {
  std::map<std::string, at::Tensor> values;
  for (const FixedTensor& tensor : state.fixed) values[tensor.name] = tensor.value.clone();
  return values;
}

/// Expects frozen parameters to be unchanged from initial_values(), without a gradient, and forward to see their value
/// in its type.
void expect_untouched(const train::UNetState& model, at::ScalarType compute_dtype) {
  const nn::UNet2D fresh(model.unet.config());
  nn::allocate(fresh.parameters(), at::kFloat);
  nn::initialize(fresh.parameters(), kWeightSeed);
  const std::map<std::string, at::Tensor> values = values_of(model);
  std::size_t frozen = 0;
  for (std::size_t i = 0; i < fresh.parameters().size(); ++i) {
    const nn::Parameter& p = *model.unet.parameters()[i];
    if (p.role != base::ParameterRole::frozen) continue;
    ++frozen;
    EXPECT_TRUE(at::equal(values.at(p.name), fresh.parameters()[i]->value)) << p.name;
    EXPECT_TRUE(at::equal(p.value, values.at(p.name).to(compute_dtype))) << p.name;
    EXPECT_EQ(p.value.scalar_type(), compute_dtype) << p.name;
    EXPECT_FALSE(p.value.requires_grad()) << p.name;
    EXPECT_FALSE(p.value.grad().defined()) << p.name;
    for (const auto& entry : model.arena.entries()) EXPECT_NE(entry.name, p.name);
  }
  EXPECT_GT(frozen, 20U);
  EXPECT_EQ(frozen, values.size());
  EXPECT_EQ(frozen + model.arena.entries().size(), fresh.parameters().size());
}

/// Saves the state in `folder` and loads it into one that has other values.
void expect_saved_and_loaded(train::UNetState& model, at::ScalarType compute_dtype, const base::Path& folder) {
  const auto files = base::posix_file_system();
  const base::Logger log(1, 2);  // says nothing
  comm::do_on_root(world(), [&] { files->create_directories(folder); });
  checkpoint::CheckpointStore store(*files, world(), folder, log);
  const checkpoint::CheckpointConfig config{.async = false};
  const parallel::Sharding& sharding = model.arena.sharding();
  const int64_t copies = world().size() / sharding.parts;
  run::Saver saver(
      config, store, world(), [](const auto&, double) {}, [](const auto&) {}, [] {});
  saver.save(model, {.index = world().rank() / sharding.parts, .count = copies, .has_fixed = world().rank() == 0},
             "hash");
  const checkpoint::Checkpoint saved = store.find().value();

  std::set<std::string> names;
  for (const checkpoint::ManifestTensor& tensor : saved.manifest.tensors) names.insert(tensor.name);
  for (const FixedTensor& tensor : model.fixed) {
    EXPECT_TRUE(names.contains("model/" + tensor.name));
    for (const char* kind : {"exp_avg/", "exp_avg_sq/", "ema.0/"}) EXPECT_FALSE(names.contains(kind + tensor.name));
  }
  EXPECT_NO_THROW(run::expect_restorable(denoise::model_tensors(model.unet), 1, saved));

  nn::UNet2D other(model.unet.config());
  freeze(other);
  train::UNetState loaded(std::move(other), 1, compute_dtype, at::kCPU, sharding);
  loaded.initialize(kWeightSeed + 1);
  EXPECT_FALSE(at::equal(loaded.fixed.front().value, model.fixed.front().value));
  run::restore(loaded, store, saved);
  expect_untouched(loaded, compute_dtype);
  for (std::size_t i = 0; i < model.arena.master().size(); ++i) {
    EXPECT_TRUE(at::equal(loaded.arena.master()[i], model.arena.master()[i]));
    EXPECT_TRUE(at::equal(loaded.ema.front()[i], model.ema.front()[i]));
  }
  comm::barrier(world());
}

TEST(FrozenParameters, AreReadSavedAndLeftAloneInEveryStage) {
  const ddpm::test::TemporaryFolder own;
  const base::Path folder = comm::broadcast(world(), own.path().string());
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    const std::string precision = dtype == at::kFloat ? "no" : "bf16";
    TrainingCase chosen{.mixed_precision = precision, .change_roles = freeze};
    const auto self = world().split(world().rank(), 0);
    const TrainingResult wanted = train(chosen, *self, kSteps);
    for (int64_t stage = 0; stage <= 3; ++stage) {
      chosen.parallel.zero_stage = stage;
      chosen.parallel.activation_checkpointing =
          stage % 2 == 1 ? parallel::ActivationCheckpointing::blocks : parallel::ActivationCheckpointing::none;
      SCOPED_TRACE(chosen.text());
      chosen.at_end = [&](train::UNetState& model) {
        expect_untouched(model, dtype);
        expect_saved_and_loaded(model, dtype, folder / fmt::format("{}-{}", precision, stage));
      };
      const TrainingResult shared = train(chosen, world(), kSteps);
      const bool exact = dtype == at::kFloat;
      EXPECT_LE(relative_distance(shared.weights, wanted.weights), exact ? 1e-5 : 1e-3);
      for (std::size_t i = 0; i < kSteps; ++i) {
        EXPECT_NEAR(shared.losses[i], wanted.losses[i], (exact ? 1e-5 : 1e-2) * wanted.losses[i]) << "step " << i;
      }
    }
  }
}

// A bit that flips in a frozen weight is found in every stage, since all ranks hold the weight.
TEST(FrozenParameters, AreComparedBetweenRanks) {
  if (world().size() == 1) return;  // there is no other rank
  const int odd = world().size() - 1;
  for (int64_t stage = 0; stage <= 3; ++stage) {
    TrainingCase chosen{.change_roles = freeze};
    chosen.parallel.zero_stage = stage;
    SCOPED_TRACE(chosen.text());
    chosen.at_end = [&](train::UNetState& model) {
      const layout::Mesh mesh({{.axis = layout::Axis::shard, .ranks = world().size()}}, world().size());
      EXPECT_NO_THROW(compare_replicas(model, mesh, world()));
      for (const bool working : {false, true}) {
        FixedTensor& tensor = model.fixed.back();
        const at::Tensor held = working ? tensor.working : tensor.value;
        const at::Tensor before = held.clone();
        if (world().rank() == odd) held.flatten()[0] += 0.5;
        EXPECT_THAT([&] { compare_replicas(model, mesh, world()); },
                    testing::ThrowsMessage<comm::AgreedError>(testing::HasSubstr(fmt::format("rank {} differs", odd))));
        held.copy_(before);
      }
    };
    train(chosen, world(), 1);
  }
}

// Before the first update, freezing a parameter makes no difference to the others.
TEST(FrozenParameters, TakePartInForwardAndBackwardOfTheOthers) {
  std::map<std::string, at::Tensor> gradients;
  const auto note = [&gradients](train::UNetState& model) {
    for (const auto& entry : model.arena.entries()) {
      const at::Tensor run = model.arena.gradient().narrow(0, entry.range.begin, entry.range.size()).clone();
      const auto [known, fresh] = gradients.emplace(entry.name, run);
      EXPECT_TRUE(fresh || at::allclose(run, known->second, 1e-4, 1e-7)) << entry.name;
    }
  };
  TrainingCase chosen{.at_end = note};
  const TrainingResult all = train(chosen, world(), 1);
  const std::size_t count = gradients.size();
  chosen.change_roles = freeze;
  const TrainingResult some = train(chosen, world(), 1);
  EXPECT_EQ(gradients.size(), count);
  EXPECT_NEAR(some.losses.front(), all.losses.front(), 1e-6 * all.losses.front());
  EXPECT_LT(some.gradient_norms.front(), all.gradient_norms.front());
}

}  // namespace
}  // namespace ddpm::engine::test
