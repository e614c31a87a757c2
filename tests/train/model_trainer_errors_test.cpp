// What ModelTrainer refuses, and numbers that are not finite.
#include <cmath>

#include <ATen/Functions.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include "comm/collectives.h"
#include "support/mpi_test.h"
#include "train/model_trainer_case.h"

namespace ddpm::train::test {
namespace {

TEST(ModelTrainer, RefusesModelsThatItCannotTrain) {
  const base::Logger log(1, 2);
  const auto files = base::posix_file_system();
  TrainerConfiguration configuration;
  configure(configuration, {}, "never-made");
  const auto refused = [&](const OwnModel& model, const std::string& part) {
    try {
      ModelTrainer(configuration, {session(), *files, log}, model);
      ADD_FAILURE() << "accepted; wanted: " << part;
    } catch (const comm::AgreedError& error) {
      EXPECT_EQ(error.code(), base::ExitCode::usage);
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
    }
  };
  const Model model;
  refused({}, "no parameters");
  refused({{{"a", model.conv, base::ParameterRole::frozen}}, {}}, "no parameters");
  refused({{{"a", model.conv}, {"a", model.linear}}, {}}, "have the name a");
  refused({{{"a", model.conv}, {"b", model.alias}}, {}}, "b is a tensor");
  refused({{{"a", model.calls}}, {}}, "a is of type Long");
  refused({{{"a", model.conv}, {"b", model.calls, base::ParameterRole::frozen}}, {}},
          "b is of type Long; float32 (or 16 bits, kept in float32) is what can be frozen");
  refused({{{"a", model.conv.to(at::kDouble)}}, {}}, "a is of type Double");
  refused({{{"a", model.conv}, {"b", at::zeros({2}, at::kComplexFloat), base::ParameterRole::constant}}, {}},
          "b is complex");
  refused(model.own({"body"}), "head.weight belongs to none of the units body");
}

TEST(ModelTrainer, RefusesAnotherModelOnOneRank) {
  if (world().size() == 1) return;  // no other rank to differ from
  const base::Logger log(1, 2);
  const auto files = base::posix_file_system();
  TrainerConfiguration configuration;
  configure(configuration, {}, "never-made");
  const Model model;
  OwnModel own = model.own();
  if (world().rank() == 1) own.tensors.front().name = "other";
  try {
    ModelTrainer(configuration, {session(), *files, log}, own);
    ADD_FAILURE() << "accepted";
  } catch (const comm::AgreedError& error) {
    EXPECT_EQ(error.code(), base::ExitCode::communication);
    EXPECT_NE(std::string(error.what()).find("model"), std::string::npos) << error.what();
  }
}

TEST(ModelTrainer, SkipsStepsThatAreNotFiniteAsFarAsAllowed) {
  const ddpm::test::TemporaryFolder folder;
  const base::Logger log(1, 2);
  const auto files = base::posix_file_system();
  TrainerConfiguration configuration;
  configure(configuration, {}, base::Path(shared_folder(folder)) / "run");
  configuration.values().fault.skip_nonfinite = 1;
  const Model model;
  ModelTrainer trainer(configuration, {session(), *files, log}, model.own());
  trainer.resume();
  bool poisoned = false;
  const auto loss = [&](const MicroBatchPosition& position) {
    const at::Tensor sum = model.head(model.body(images(position))).square().sum();
    return poisoned && position.first == 0 ? sum * std::nan("") : sum;
  };
  trainer.step(loss);
  EXPECT_THROW((void)trainer.weights({.relative_length = 0.1}), base::ConfigError);
  const auto before = trainer.weights();
  poisoned = true;
  EXPECT_TRUE(std::isinf(trainer.step(loss).gradient_norm));
  for (const auto& [name, value] : trainer.weights()) EXPECT_TRUE(at::equal(value, before.at(name))) << name;
  EXPECT_EQ(trainer.progress().applied_updates, 1);
  poisoned = false;
  EXPECT_TRUE(std::isfinite(trainer.step(loss).gradient_norm));
  poisoned = true;
  trainer.step(loss);
  EXPECT_THROW(trainer.step(loss), comm::AgreedError);
  comm::barrier(world());
}

TEST(ModelTrainer, NamesTheRankWhoseLossIsNotFinite) {
  const ddpm::test::TemporaryFolder folder;
  const base::Logger log(1, 2);
  const auto files = base::posix_file_system();
  TrainerConfiguration configuration;
  configure(configuration, {}, base::Path(shared_folder(folder)) / "run");
  const Model model;
  ModelTrainer trainer(configuration, {session(), *files, log}, model.own());
  trainer.resume();
  const int odd = world().size() - 1;
  try {
    trainer.step([&](const MicroBatchPosition& position) {
      const at::Tensor loss = model.head(model.body(images(position))).square().sum();
      return world().rank() == odd ? loss * std::nan("") : loss;
    });
    ADD_FAILURE() << "accepted";
  } catch (const comm::AgreedError& error) {
    EXPECT_EQ(error.code(), base::ExitCode::numerics);
    EXPECT_NE(std::string(error.what()).find(fmt::format("not finite on rank {}", odd)), std::string::npos)
        << error.what();
  }
  comm::barrier(world());
}

}  // namespace
}  // namespace ddpm::train::test
