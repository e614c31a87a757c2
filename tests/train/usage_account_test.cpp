// The account of a run whose file cannot be written.
#include <cstdint>
#include <filesystem>
#include <functional>

#include <gmock/gmock.h>

#include "comm/collectives.h"
#include "support/mpi_test.h"
#include "train/model_trainer_case.h"

namespace ddpm::train::test {
namespace {

/// Trains a Model. `hears` is told, before each micro-batch, of the steps that have been made.
void train_beside(base::FileSystem& files, const base::Path& run, int64_t steps,
                  const std::function<void(int64_t)>& hears) {
  const base::Logger log(1, world().size());  // says nothing
  TrainerConfiguration configuration;
  configure(configuration, {.steps = steps, .every = 2}, run);
  const Model model;
  ModelTrainer trainer(configuration, {session(), files, log}, model.own());
  trainer.resume();
  while (!trainer.done()) {
    trainer.step([&](const MicroBatchPosition& p) {
      hears(p.step);
      return model.head(model.body(images(p))).square().sum();
    });
  }
}

TEST(UsageAccount, LinesThatCannotBeWrittenCostNoRun) {
  const ddpm::test::TemporaryFolder own;
  const base::Path run = shared_folder(own) / "run";
  const auto files = base::posix_file_system();
  const auto block = [&](int64_t made) {
    const base::Path account = run / "usage.jsonl";
    if (world().rank() != 0 || made < 2 || std::filesystem::is_directory(account)) return;
    files->remove(account);
    files->create_directory(account);
  };
  EXPECT_NO_THROW(train_beside(*files, run, 3, block)) << "the last line of a start";
  EXPECT_FALSE(files->exists(run / "LOCK")) << "the run has ended in order";
  int64_t later = 0;
  EXPECT_NO_THROW(train_beside(*files, run, 4, [&](int64_t /*made*/) { ++later; })) << "the first line of a start";
  EXPECT_GT(later, 0);
  comm::barrier(world());
}

}  // namespace
}  // namespace ddpm::train::test
