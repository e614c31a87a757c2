// Callbacks beside the steps of a model that is not ours: their order, early stopping, the best checkpoint, resuming.
#include <algorithm>

#include <gmock/gmock.h>

#include "checkpoint/folders.h"
#include "comm/collectives.h"
#include "support/mpi_test.h"
#include "train/model_trainer_case.h"
#include "train/validation_history.h"

namespace ddpm::train::test {
namespace {

using testing::ElementsAre;

/// Says of step N that its validation loss is the N-th of a list.
class GivenLosses final : public Callback {
 public:
  explicit GivenLosses(std::vector<double> losses) : losses_(std::move(losses)) {}
  bool due(const FinishedStep& /*step*/) const override { return true; }
  void run(FinishedStep& step) override {
    step.validated = {losses_.at(static_cast<std::size_t>(step.step - 1)), "given"};
  }

 private:
  std::vector<double> losses_;
};

/// Notes the calls that it gets.
class Witness final : public Callback {
 public:
  bool due(const FinishedStep& step) const override { return step.step != 2; }
  void run(FinishedStep& step) override {
    steps.push_back(step.step);
    if (step.best) best.push_back(step.step);
    if (step.last) last.push_back(step.step);
  }
  void write(checkpoint::SaveRequest& request) override { request.state["witness"] = request.step; }
  void resume(const checkpoint::Checkpoint& checkpoint) override {
    remembered = checkpoint.manifest.state.at("witness").get<int64_t>();
  }
  void close() override { closed += 1; }

  std::vector<int64_t> steps, best, last;
  int64_t remembered = 0;
  int closed = 0;
};

struct Training {
  /// Trains, at most `stop_after` steps of it in this call. Collective.
  Training(const base::Path& folder, std::vector<double> losses, int64_t patience, int64_t stop_after = 1000)
      : given(std::move(losses)) {
    TrainerConfiguration configuration;
    configure(configuration, {.steps = 6, .every = 100}, folder);
    configuration.values().checkpoint.keep_latest = 1;
    Model model;
    ModelTrainer trainer(configuration, {session(), *files, log}, model.own());
    ValidationHistory history("given", 0.0, *files, trainer.checkpoints(), world(), log);
    BestCheckpoint best(history);
    EarlyStopping early(history, patience);
    for (Callback* callback : std::initializer_list<Callback*>{&given, &history, &best, &early, &witness}) {
      trainer.add(*callback);
    }
    resumed = trainer.resume();
    while (!trainer.done() && stop_after-- > 0) {
      trainer.step([&](const MicroBatchPosition& at) { return model.head(model.body(images(at))).square().sum(); });
    }
    step = trainer.progress().step;
    if (!trainer.done()) trainer.save();
    waited = history.record().waited;
  }

  std::unique_ptr<base::FileSystem> files = base::posix_file_system();
  base::Logger log{1, world().size()};  // says nothing
  GivenLosses given;
  Witness witness;
  bool resumed = false;
  int64_t step = 0;
  int64_t waited = 0;
};

TEST(Callbacks, SeeWhatEarlierOnesNotedAndEndTheRun) {
  const ddpm::test::TemporaryFolder own;
  const base::Path folder = shared_folder(own) / "run";
  const Training run(folder, {0.5, 0.4, 0.3, 0.6, 0.7, 0.1}, /*patience=*/2);
  EXPECT_EQ(run.step, 5) << "step 6 would have been the best of all";
  EXPECT_THAT(run.witness.steps, ElementsAre(1, 3, 4, 5)) << "it is not due after step 2";
  EXPECT_THAT(run.witness.best, ElementsAre(1, 3));
  EXPECT_THAT(run.witness.last, ElementsAre(5));
  EXPECT_EQ(run.witness.closed, 1);
  if (world().rank() == 0) {
    const auto there = [&](int64_t step) {
      return run.files->exists(folder / "checkpoints" / checkpoint::step_folder_name(step));
    };
    EXPECT_TRUE(there(3)) << "the best one is kept";
    EXPECT_TRUE(there(5)) << "the last one";
    EXPECT_FALSE(there(1) || there(2)) << "keep_latest = 1";
  }
  comm::barrier(world());
  const Training again(folder, {}, /*patience=*/2);
  EXPECT_TRUE(again.resumed);
  EXPECT_TRUE(again.witness.steps.empty()) << "the run has ended";
  comm::barrier(world());
}

TEST(Callbacks, AreRememberedByCheckpoints) {
  const ddpm::test::TemporaryFolder own;
  const base::Path folder = shared_folder(own) / "run";
  const std::vector<double> losses = {0.5, 0.6, 0.7, 0.8, 0.9, 1.0};
  const Training first(folder, losses, /*patience=*/4, /*stop_after=*/3);
  EXPECT_EQ(first.waited, 2);
  EXPECT_EQ(first.witness.remembered, 0);
  const Training second(folder, losses, /*patience=*/4);
  EXPECT_EQ(second.witness.remembered, 3);
  EXPECT_EQ(second.step, 5) << "two validations before the stop, two after it";
  EXPECT_TRUE(second.witness.best.empty()) << "the best one was before the stop";
  comm::barrier(world());
}

}  // namespace
}  // namespace ddpm::train::test
