// Saves while the state keeps changing, saves states that must be refused, and loads from any ranks and stage into any
// other.
#include "run/saver.h"

#include <cmath>
#include <limits>
#include <tuple>

#include <ATen/ops/full.h>
#include <gmock/gmock.h>

#include "base/error.h"
#include "base/json.h"
#include "engine/replicas.h"
#include "run/saved_state.h"
#include "train/readable_state.h"
#include "train/validation_record.h"

namespace ddpm::run::test {
namespace {

TEST(Saver, WritesTheStateAsItWasWhileItChanges) {
  const ddpm::test::TemporaryFolder folder;
  const base::Path run = shared_folder(folder);
  for (const int64_t stage : {0, 2, 3}) {
    Trained saved(world(), run / std::to_string(stage), stage);
    saved.files->create_directories(run / std::to_string(stage));
    saved.fill(1);
    saved.save();
    EXPECT_TRUE(saved.saver.pending());
    EXPECT_EQ(saved.saver.newest_step(), 1);
    saved.fill(2);  // while the thread writes
    saved.saver.drain();
    EXPECT_FALSE(saved.saver.pending());
    EXPECT_EQ(saved.saver.vote(), 0.0);
    ASSERT_EQ(saved.committed.size(), 1U);

    Trained wanted(world(), run / (std::to_string(stage) + "-wanted"), stage, /*async=*/false);
    wanted.files->create_directories(run / (std::to_string(stage) + "-wanted"));
    wanted.fill(1);
    wanted.save();
    EXPECT_FALSE(wanted.saver.pending());
    EXPECT_EQ(state_hash(saved.store, saved.store.find().value()),
              state_hash(wanted.store, wanted.store.find().value()));
    comm::barrier(world());
  }
}

TEST(Saver, OneIsOnItsWayAtATime) {
  const ddpm::test::TemporaryFolder folder;
  Trained saved(world(), shared_folder(folder), 0);
  for (const int step : {1, 2, 3}) {
    saved.fill(static_cast<float>(step));
    saved.save();
    EXPECT_EQ(std::ssize(saved.committed), step - 1);
  }
  saved.saver.drain();
  saved.saver.drain();  // nothing more to do
  EXPECT_EQ(saved.committed.size(), 3U);
  EXPECT_EQ(saved.store.find().value().manifest.step, 3);
  comm::barrier(world());
}

TEST(Saver, NeverSavesAValueThatIsNotFinite) {
  const ddpm::test::TemporaryFolder folder;
  Trained saved(world(), shared_folder(folder), 3);
  saved.fill(1);
  saved.save();
  saved.saver.drain();
  saved.fill(2);
  const bool odd = world().rank() == world().size() - 1;
  if (odd) saved.model.exp_avg.back().narrow(0, 0, 1).fill_(std::nan(""));
  saved.save();
  try {
    saved.saver.drain();
    ADD_FAILURE() << "saved";
  } catch (const comm::AgreedError& error) {
    EXPECT_EQ(error.code(), base::ExitCode::numerics);
    EXPECT_THAT(error.what(), testing::HasSubstr("'exp_avg/"));
  }
  EXPECT_FALSE(saved.saver.pending());
  EXPECT_EQ(saved.store.find().value().manifest.step, 1);
  EXPECT_EQ(saved.committed.size(), 1U);
  comm::barrier(world());
}

TEST(Saver, WhatTrainingDoesNotChangeMayBeInfinite) {
  const ddpm::test::TemporaryFolder folder;
  Trained saved(world(), shared_folder(folder), 0);
  saved.fill(1);
  const at::Tensor mask = at::full({3}, -std::numeric_limits<float>::infinity());  // as of causal attention
  saved.model.fixed.push_back({.name = "mask", .value = mask, .working = mask});
  saved.save();
  saved.saver.drain();
  EXPECT_EQ(saved.store.find().value().manifest.step, 1);
  comm::barrier(world());
}

TEST(Saver, AnErrorOfTheTrainingLosesNoCheckpoint) {
  const ddpm::test::TemporaryFolder folder;
  Trained saved(world(), shared_folder(folder), 0);
  const auto train = [&] {
    saved.fill(1);
    saved.save();
    comm::agree(world(), [] { throw base::NumericsError("the loss is gone"); });
  };
  EXPECT_THROW(saved.saver.guard(train), comm::AgreedError);
  EXPECT_EQ(saved.waits, 1);
  EXPECT_EQ(saved.store.find().value().manifest.step, 1);
  comm::barrier(world());
}

TEST(Saver, AnyRanksAndStageToAnyOther) {
  if (world().size() < 4) return;  // the chain needs four
  const ddpm::test::TemporaryFolder folder;
  const base::Path base = shared_folder(folder);
  struct Link {
    int ranks;
    int64_t stage;
  };
  const std::vector<Link> chain = {{1, 0}, {2, 3}, {4, 1}, {3, 2}, {1, 3}, {4, 3}, {3, 0}, {2, 2}, {1, 0}};
  std::string first;
  for (std::size_t i = 0; i < chain.size(); ++i) {
    const auto ranks = world().split(world().rank() < chain[i].ranks ? 0 : 1, world().rank());
    if (world().rank() < chain[i].ranks) {
      const base::Path run = base / std::to_string(i);
      Trained link(*ranks, run, chain[i].stage);
      if (ranks->rank() == 0) link.files->create_directories(run);
      comm::barrier(*ranks);
      if (i == 0) {
        link.fill(7);
      } else {
        restore(link.model, link.store,
                link.store.open(base / std::to_string(i - 1) / "checkpoints" / "step-00000007"));
      }
      link.save();
      link.saver.drain();
      const auto checkpoint = link.store.find().value();
      EXPECT_EQ(checkpoint.manifest.world_size, chain[i].ranks);
      const std::string hash = state_hash(link.store, checkpoint);
      if (i == 0) first = hash;
      if (world().rank() == 0) {
        EXPECT_EQ(hash, first) << "link " << i;
      }
      comm::barrier(*ranks);
    }
    comm::barrier(world());
  }
}

TEST(Saver, WhatARestoreWouldRefuseIsNotPublished) {
  const ddpm::test::TemporaryFolder folder;
  Trained trained(world(), shared_folder(folder), 0, /*async=*/false);
  trained.fill(7);
  const auto save_with = [&](const char* key, const base::Json& value) {
    trained.saver.save(trained.model, trained.replica, "hash", [&](checkpoint::SaveRequest& request) {
      request.state[key] = value;
      train::check_also(request, train::read_validation_record);
    });
  };
  for (const auto& [key, value] :
       std::vector<std::pair<const char*, base::Json>>{{"images_seen", INT64_MAX}, {"validation_set", 3}}) {
    EXPECT_THROW(save_with(key, value), comm::AgreedError) << key;
    EXPECT_FALSE(trained.store.find()) << key;
  }
  save_with("images_seen", 64U);
  EXPECT_EQ(trained.store.find()->manifest.step, 7);
}

TEST(Restore, RefusesCountersThatNoRunHas) {
  const ddpm::test::TemporaryFolder folder;
  Trained saved(world(), shared_folder(folder), 0, /*async=*/false);
  saved.fill(7);
  saved.model.progress.applied_updates = 6;
  saved.model.progress.scaler = {.scale = 512.0, .growth_tracker = 3, .consecutive_skips = 1};
  saved.save();
  const auto checkpoint = saved.store.find().value();
  const base::Json nothing;
  const std::vector<std::tuple<std::string, base::Json, std::string>> cases = {
      {"step", 8U, "'step' is 8, wanted 7"},
      {"step", true, "'step' is true, wanted a whole number"},
      {"step", 7.0, "'step' is 7.0, wanted a whole number"},
      {"applied_updates", 8U, "'applied_updates' is 8, wanted 0 to 7"},
      {"applied_updates", -1, "'applied_updates' is -1, wanted a whole number"},
      {"images_seen", 1.5, "'images_seen' is 1.5, wanted a whole number"},
      {"images_seen", INT64_MAX, "'images_seen' is 9223372036854775807, wanted 0 to "},
      {"loss_scale", 0U, "'loss_scale' is 0, wanted a number from "},
      {"loss_scale", 1e300, "'loss_scale' is 1e+300, wanted a number from "},
      {"loss_scale", true, "'loss_scale' is true, wanted a number from "},
      {"loss_scale_growth_tracker", 8U, "'loss_scale_growth_tracker' is 8, wanted 0 to 7"},
      {"consecutive_skips", 8U, "'consecutive_skips' is 8, wanted 0 to 7"},
      {"resumed_from", 1, "'resumed_from' is 1, wanted a string"},
      {"images_seen", nothing, "key 'images_seen' is missing"},
  };
  for (const auto& [key, value, said] : cases) {
    auto forged = checkpoint;
    forged.manifest.state[key] = value;
    if (value.is_null()) forged.manifest.state.erase(key);
    try {
      restore(saved.model, saved.store, forged);
      ADD_FAILURE() << key << " " << value.dump() << " was accepted";
    } catch (const base::OutputError& error) {
      EXPECT_THAT(error.what(), testing::HasSubstr("MANIFEST.json: state: " + said));
    }
  }
  auto later = checkpoint;
  later.manifest.step = INT64_MAX;
  later.manifest.state["step"] = INT64_MAX;
  EXPECT_THROW(restore(saved.model, saved.store, later), base::OutputError);
  restore(saved.model, saved.store, checkpoint);
  EXPECT_EQ(saved.model.progress.applied_updates, 6);
  EXPECT_EQ(saved.model.progress.scaler.scale, 512.0);
}

TEST(Replicas, ADifferentBitNamesTheRank) {
  if (world().size() == 1) return;  // no other rank to differ from
  const ddpm::test::TemporaryFolder folder;
  for (const int64_t stage : {0, 1}) {
    Trained trained(world(), shared_folder(folder), stage);
    const layout::Mesh mesh = layout::Parallelism{.zero_stage = stage}.mesh(world().size());
    trained.fill(3);
    if (stage == 0) {
      EXPECT_NO_THROW(engine::compare_replicas(trained.model, mesh, world()));
    }
    const int odd = world().size() - 1;
    // In stage 0 it changes a moment, of which all ranks have a copy; in stage 1 a weight, since each moment exists
    // once.
    const at::Tensor changed = stage == 0 ? trained.model.exp_avg.front() : trained.model.arena.working();
    if (stage == 1) trained.model.arena.working().fill_(1.0F);
    if (world().rank() == odd) changed[5] = std::nextafter(changed[5].item<float>(), 1e9F);
    try {
      engine::compare_replicas(trained.model, mesh, world());
      ADD_FAILURE() << "nothing was found in stage " << stage;
    } catch (const comm::AgreedError& error) {
      EXPECT_EQ(error.code(), base::ExitCode::numerics);
      EXPECT_THAT(error.what(), testing::HasSubstr("have diverged: rank "));
      if (world().size() > 2) {
        EXPECT_THAT(error.what(), testing::HasSubstr(fmt::format("rank {} differs", odd)));
      }
    }
  }
  comm::barrier(world());
}

TEST(Replicas, TheStateOfOuterStepsIsCompared) {
  if (world().size() == 1) return;
  const ddpm::test::TemporaryFolder folder;
  Trained trained(world(), shared_folder(folder), 0);
  trained.fill(3);
  trained.model.outer.emplace();
  for (const at::Tensor& piece : trained.model.exp_avg) {
    trained.model.outer->anchor.push_back(piece.clone());
    trained.model.outer->momentum.push_back(piece.clone());
  }
  const layout::Mesh mesh = layout::Parallelism{}.mesh(world().size());
  EXPECT_NO_THROW(engine::compare_replicas(trained.model, mesh, world()));
  if (world().rank() == 1) trained.model.outer->momentum.front()[5] = 0.5F;
  EXPECT_THROW(engine::compare_replicas(trained.model, mesh, world()), comm::AgreedError);
  comm::barrier(world());
}

TEST(Replicas, PartsOfTheChannelsHoldAlikeWhatIsNotCut) {
  const int parts = world().size();
  if (parts != 2) return;
  train::UNetState state(engine::test::tiny_unet(), 0, at::kFloat, at::kCPU,
                         {.channel_parts = parts, .channel_part = world().rank()});
  const layout::Mesh mesh = layout::Parallelism{.tensor_size = parts}.mesh(parts);
  state.arena.working().fill_(1.0F);
  EXPECT_TRUE(engine::has_replicas(state, mesh));
  const auto change = [&](bool cut) {  // on one rank
    for (const auto& entry : state.arena.entries()) {
      if (entry.split.cuts() != cut) continue;
      if (world().rank() == 1) state.arena.working()[entry.range.begin] = 2.0F;
      return;
    }
    FAIL() << "no parameter is " << (cut ? "cut" : "whole");
  };
  change(true);
  EXPECT_NO_THROW(engine::compare_replicas(state, mesh, world())) << "each has a part of its own";
  change(false);
  EXPECT_THROW(engine::compare_replicas(state, mesh, world()), comm::AgreedError);
  comm::barrier(world());
}

TEST(Replicas, FingerprintsSeeEachValueAndItsPlace) {
  std::vector<float> values(1000, 0.5F);
  const uint64_t before = engine::fingerprint(values);
  for (std::size_t i = 0; i < values.size(); i += 37) {
    values[i] = -0.5F;
    EXPECT_NE(engine::fingerprint(values), before);
    values[i] = 0.5F;
  }
  values[3] = 0.25F;
  const uint64_t at_three = engine::fingerprint(values);
  values[3] = 0.5F;
  values[4] = 0.25F;
  EXPECT_NE(engine::fingerprint(values), at_three);
  EXPECT_EQ(
      engine::fingerprint(std::span(values).first(500)) + engine::fingerprint(std::span(values).subspan(500), 500),
      engine::fingerprint(values));
}

}  // namespace
}  // namespace ddpm::run::test
