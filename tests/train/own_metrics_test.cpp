// What a program logs of its own model, and units whose activations are computed again.
#include <ATen/Functions.h>
#include <ATen/ops/dropout.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/relu.h>
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "base/file_system.h"
#include "comm/collectives.h"
#include "observe/metrics_log.h"
#include "support/mpi_test.h"
#include "train/model_trainer_case.h"

namespace ddpm::train::test {
namespace {

using testing::HasSubstr;

/// Logs the step's number, as a validation logs what it finds.
class LogsItsStep final : public Callback {
 public:
  explicit LogsItsStep(ModelTrainer*& trainer) : trainer_(trainer) {}
  bool due(const FinishedStep& /*step*/) const override { return true; }
  void run(FinishedStep& step) override { trainer_->log({{"of_callback", static_cast<double>(step.step)}}); }

 private:
  ModelTrainer*& trainer_;
};

/// Trains a Model of which each micro-batch logs what `given` says.
using Given = std::function<std::map<std::string, double>(const MicroBatchPosition&)>;
void train_and_log(const base::Path& folder, int64_t every, const Given& given) {
  const base::Logger log(1, world().size());  // says nothing
  const auto files = base::posix_file_system();
  TrainerConfiguration configuration;
  configuration.values().logging.every_steps = every;
  configure(configuration, {.steps = 5}, folder);
  const Model model;
  ModelTrainer* added = nullptr;
  LogsItsStep callback(added);
  ModelTrainer trainer(configuration, {session(), *files, log}, model.own());
  added = &trainer;
  trainer.add(callback);
  trainer.resume();
  while (!trainer.done()) {
    trainer.step([&](const MicroBatchPosition& p) {
      trainer.log(given(p));
      return model.head(model.body(images(p))).square().sum();
    });
  }
}

std::vector<base::Json> lines_of(const base::Path& run) {
  std::vector<base::Json> lines;
  std::istringstream text(ddpm::test::read_text(run / "metrics.jsonl"));
  for (std::string line; std::getline(text, line);) lines.push_back(base::Json::parse(line));
  return lines;
}

TEST(OwnMetrics, AreMeansOverTheMicroBatchesOfAllRanks) {
  const ddpm::test::TemporaryFolder folder;
  const base::Path run = shared_folder(folder) / "run";
  train_and_log(run, 2, [](const MicroBatchPosition& p) {
    return std::map<std::string, double>{{"position", static_cast<double>(p.first)},
                                         {"parts/step", static_cast<double>(p.step) + 0.25},
                                         {"absent", std::numeric_limits<double>::quiet_NaN()}};
  });
  if (world().rank() != 0) return;
  const std::vector<base::Json> lines = lines_of(run);
  ASSERT_EQ(lines.size(), 4U) << "the first, the second, the fourth and the last";
  for (const base::Json& line : lines) {
    const auto step = line.at("step").get<double>();
    EXPECT_EQ(line.at("position"), 7.0) << "the mean of 0, 2, ... 14, on any number of ranks";
    EXPECT_EQ(line.at("parts/step"), step - 0.75) << "of this step alone";
    EXPECT_EQ(line.at("of_callback"), step);
    EXPECT_TRUE(line.at("absent").is_null());
    EXPECT_GT(line.at("images_per_second"), 0.0);
    EXPECT_GT(line.at("seconds_per_step"), 0.0);
    EXPECT_EQ(line.at("images_seen"), step * kGlobalSize);
  }
  for (const auto& entry : std::filesystem::directory_iterator(run / "events")) {
    const std::string events = ddpm::test::read_text(entry.path());
    for (const char* tag : {"train/loss", "own/position", "own/parts/step", "own/of_callback"}) {
      EXPECT_THAT(events, HasSubstr(tag));
    }
  }
}

TEST(OwnMetrics, MoreThanALineHoldsAreLeftOutOfALineThatIsReadBack) {
  const ddpm::test::TemporaryFolder folder;
  const base::Path run = shared_folder(folder) / "run";
  std::map<std::string, double> many;
  for (int i = 0; i < 9000; ++i) many[fmt::format("{:0120}", i)] = 0.5;
  train_and_log(run, 5, [&](const MicroBatchPosition&) { return many; });
  if (world().rank() != 0) return;
  const std::vector<observe::StepMetrics> steps =
      observe::read_metrics(*base::posix_file_system(), run / "metrics.jsonl");
  ASSERT_EQ(steps.size(), 2U) << "the first and the fifth";
  EXPECT_TRUE(steps.back().own.empty());
  for (const auto& entry : std::filesystem::directory_iterator(run / "events")) {
    EXPECT_THAT(ddpm::test::read_text(entry.path()), HasSubstr(fmt::format("own/{}", many.rbegin()->first)));
  }
}

TEST(OwnMetrics, NamesThatCannotBeAreRefused) {
  const ddpm::test::TemporaryFolder folder;
  const base::Path path = shared_folder(folder);
  for (const char* name : {"", "loss", "step", "two words", "/a", ".a", "\n"}) {
    const auto given = [&](const MicroBatchPosition&) { return std::map<std::string, double>{{name, 1.0}}; };
    EXPECT_THROW(train_and_log(path / std::to_string(name[0]), 1, given), base::ConfigError) << name;
    comm::barrier(world());
  }
}

TEST(OwnMetrics, RanksThatLogOtherNamesAreNamed) {
  if (world().size() == 1) return;  // no other rank to differ from
  const ddpm::test::TemporaryFolder folder;
  try {
    train_and_log(shared_folder(folder) / "run", 1, [](const MicroBatchPosition&) {
      return std::map<std::string, double>{{world().rank() == 1 ? "b" : "a", 1.0}};
    });
    ADD_FAILURE() << "accepted";
  } catch (const comm::AgreedError& error) {
    EXPECT_EQ(error.code(), base::ExitCode::communication);
    EXPECT_THAT(error.what(), HasSubstr("ModelTrainer::log"));
  }
}

/// Two units with dropout, the second of which takes and returns two tensors.
struct Units {
  at::Tensor a = values({kWidth, kWidth}, 0.7);
  at::Tensor b = values({kWidth, kWidth}, 0.9);
  at::Tensor c = values({1, kWidth}, 1.1);
  int runs = 0;  ///< of the first unit, forward
  [[nodiscard]] OwnModel own() const { return {{{"a.w", a}, {"b.w", b}, {"c.w", c}}, {"a", "b", "c"}}; }

  at::Tensor loss(ModelTrainer& trainer, const MicroBatchPosition& p) {
    const at::Tensor x = values({p.count, kWidth}, 0.1 + static_cast<double>(p.first)).to(trainer.compute_dtype());
    const at::Tensor y = trainer.run_unit("a", x, [this](const at::Tensor& in) {
      ++runs;
      return at::dropout(at::relu(at::linear(in, a)), 0.3, true);
    });
    const auto two = trainer.run_unit("b", std::vector<at::Tensor>{y, x}, [this](const std::vector<at::Tensor>& in) {
      const at::Tensor h = at::linear(in[0] + in[1], b);
      return std::vector<at::Tensor>{at::dropout(h.sigmoid(), 0.2, true), h.tanh()};
    });
    const auto last = [this](const std::vector<at::Tensor>& in) {
      return std::vector<at::Tensor>{at::linear(in[0] * in[1], c)};
    };
    return (trainer.run_unit("c", two, last).front().to(at::kFloat) - 0.3).square().sum();
  }
};

struct Trained {
  std::vector<double> losses;
  std::map<std::string, at::Tensor> weights;
  int runs = 0;
};

Trained train_units(const base::Path& folder, parallel::ActivationCheckpointing recomputed, const Case& chosen) {
  const base::Logger log(1, world().size());
  const auto files = base::posix_file_system();
  TrainerConfiguration configuration;
  configuration.values().parallel.activation_checkpointing = recomputed;
  configure(configuration, chosen, folder);
  Units model;
  ModelTrainer trainer(configuration, {session(), *files, log}, model.own());
  trainer.resume();
  Trained result;
  while (!trainer.done()) {
    result.losses.push_back(trainer.step([&](const MicroBatchPosition& p) { return model.loss(trainer, p); }).loss);
  }
  result.weights = trainer.weights();
  result.runs = model.runs;
  return result;
}

TEST(RunUnit, ComputedAgainInBackwardGradientsHaveTheSameBits) {
  using enum parallel::ActivationCheckpointing;
  const ddpm::test::TemporaryFolder folder;
  const base::Path path = shared_folder(folder);
  for (const int64_t stage : {0, 2, 3}) {
    for (const char* precision : {"no", "bf16"}) {
      const Case chosen{.stage = stage, .precision = precision};
      SCOPED_TRACE(chosen.text());
      const base::Path here = path / fmt::format("{}-{}", stage, precision);
      const Trained kept = train_units(here / "kept", none, chosen);
      const Trained again = train_units(here / "again", blocks, chosen);
      EXPECT_EQ(kept.losses, again.losses);
      EXPECT_EQ(again.runs, 2 * kept.runs);
      for (const auto& [name, value] : kept.weights) EXPECT_TRUE(at::equal(value, again.weights.at(name))) << name;
      EXPECT_NE(kept.losses.front(), kept.losses.back());
      comm::barrier(world());
    }
  }
}

TEST(RunUnit, WhatCannotBeComputedAgainIsRefused) {
  const ddpm::test::TemporaryFolder folder;
  const base::Path path = shared_folder(folder);
  const base::Logger log(1, world().size());
  const auto files = base::posix_file_system();
  TrainerConfiguration configuration;
  configuration.values().parallel.activation_checkpointing = parallel::ActivationCheckpointing::blocks;
  configure(configuration, {}, path / "run");
  const Model model;
  EXPECT_THROW(ModelTrainer(configuration, {session(), *files, log}, model.own()), comm::AgreedError) << "no units";
  ModelTrainer trainer(configuration, {session(), *files, log}, model.own({"body", "head"}));
  trainer.resume();
  const auto without_inputs = [&](const MicroBatchPosition& p) {
    return trainer.run_unit("body", [&] { return model.body(images(p)); }).sum();
  };
  EXPECT_THROW(trainer.step(without_inputs), base::ConfigError);
  TrainerConfiguration attention;
  attention.values().parallel.activation_checkpointing = parallel::ActivationCheckpointing::attention;
  EXPECT_THROW(configure(attention, {}, path / "other"), comm::AgreedError);
  comm::barrier(world());
}

}  // namespace
}  // namespace ddpm::train::test
