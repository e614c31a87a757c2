// Steps that are recorded once and replayed: on the host by a twin that keeps the closure and calls it again, with all
// that the host knew when it was recorded. So whatever a GPU's graph would not see change, this one does not either.
#include "engine/step_graph.h"

#include <optional>
#include <stdexcept>

#include <ATen/ops/equal.h>
#include <gmock/gmock.h>

#include "base/log.h"
#include "data/sample_set.h"
#include "data/shared_folder.h"
#include "train/denoising_step.h"

namespace ddpm::engine {
namespace {

constexpr data::ImageFormat kFormat = {.height = 8, .width = 8, .channels = 3, .dtype = base::DType::u8};
constexpr int64_t kSteps = 7;

std::string toml(const std::string& folder, const std::string& precision) {
  return fmt::format(R"(
[run]
directory = "{0}/run"
seed = 3
device = "cpu"
threads_per_rank = 1
[data]
train = "{0}/train"
horizontal_flip = true
[model]
block_out_channels = [8, 16]
down_block_types = ["DownBlock2D", "AttnDownBlock2D"]
up_block_types = ["AttnUpBlock2D", "UpBlock2D"]
layers_per_block = 1
norm_num_groups = 4
num_class_embeds = 3
dropout = 0.1
[batch]
global_size = 8
micro_size = 2
[train]
steps = {1}
[optimizer]
learning_rate = 1e-2
[lr_schedule]
warmup_steps = 3
[precision]
mixed_precision = "{2}"
initial_loss_scale = 67108864.0
loss_scale_window = 2
)",
                     folder, kSteps, precision);
}

/// `problem`: what recording ends with.
class Twin final : public device::DeviceGraph {
 public:
  explicit Twin(std::string problem = {}) : problem_(std::move(problem)) {}
  void record(const std::function<void()>& work) override {
    if (!problem_.empty()) throw std::runtime_error(problem_);
    work_ = work;
  }
  void replay() override {
    ++replays;
    work_();
  }

  static inline int64_t replays = 0;

 private:
  std::function<void()> work_;
  std::string problem_;
};

struct Trained {
  at::Tensor weights;
  std::vector<double> losses;
  std::vector<double> norms;
  int64_t most_ahead = 0;
};

class StepGraphTest : public data::SharedFolderTest {
 protected:
  void SetUp() override {
    SharedFolderTest::SetUp();
    on_rank_0([&] { data::write_sample_set(folder_ / "train", kFormat, /*has_labels=*/true, {7, 6}); });
  }

  Trained train(const std::string& precision, std::unique_ptr<device::DeviceGraph> graph) {
    train::Configuration configuration;
    configuration.load_text(toml(folder_.string(), precision), "test");
    const auto files = base::posix_file_system();
    const base::Logger log(test::world().rank(), test::world().size());
    const run::Runtime runtime{test::session(), *files, log};
    train::Task task = train::Task::make(configuration, runtime);
    train::UNetState model(task.fitted.unet, 1, task.place.compute_dtype, task.place.device, task.place.sharding);
    run::Supervision supervision(task.config.fault, runtime);
    train::DenoisingStep step(task, model, test::world(), test::world(), supervision,
                              StepGraph(std::move(graph), test::world(), log));
    model.initialize(5);
    step.state_changed();
    std::optional<data::BatchLoader> loader;
    loader.emplace(
        task.dataset, task.order,
        data::BatchLoader::Options{.layout = task.place.layout, .rank = test::world().rank(), .end_step = kSteps});
    Trained trained;
    for (int64_t i = 1; i <= kSteps; ++i) {
      EXPECT_TRUE(step.begin(*loader));
      trained.most_ahead = std::max(trained.most_ahead, step.last_begun() - model.progress.step);
      while (const auto outcome = step.finished(i == kSteps)) {
        trained.losses.push_back(outcome->loss);
        trained.norms.push_back(outcome->gradient_norm);
      }
    }
    EXPECT_EQ(model.progress.step, kSteps);
    trained.weights = model.arena.master().front().clone();
    loader.reset();
    task.dataset.close(test::world());
    return trained;
  }

  void expect_same(const Trained& seen, const Trained& wanted) {
    EXPECT_TRUE(at::equal(seen.weights, wanted.weights));
    EXPECT_EQ(seen.losses, wanted.losses);
    EXPECT_EQ(seen.norms, wanted.norms);
  }
};

TEST_F(StepGraphTest, ReplayedStepsAreThoseThatAreLaunched) {
  for (const std::string precision : {"no", "bf16", "fp16"}) {
    SCOPED_TRACE(precision);
    const Trained launched = train(precision, nullptr);
    EXPECT_EQ(launched.most_ahead, 1);
    Twin::replays = 0;
    const Trained replayed = train(precision, std::make_unique<Twin>());
    EXPECT_EQ(Twin::replays, kSteps - 2);
    EXPECT_EQ(replayed.most_ahead, 2);
    expect_same(replayed, launched);
  }
}

TEST_F(StepGraphTest, WhatCannotBeRecordedOnOneRankIsLaunchedOnAll) {
  const bool odd = test::world().rank() == test::world().size() - 1;
  Twin::replays = 0;
  testing::internal::CaptureStderr();
  const Trained seen = train("no", std::make_unique<Twin>(odd ? "a stone in the way\nand more" : ""));
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_EQ(Twin::replays, 0);
  if (test::world().rank() == 0) {
    EXPECT_THAT(said, testing::HasSubstr(fmt::format(
                          "rank {} cannot record step 3 as a CUDA graph (a stone in the way); all ranks launch its "
                          "operations one by one",
                          test::world().size() - 1)));
    EXPECT_EQ(std::ranges::count(said, '\n'), 1) << said;
  }
  EXPECT_EQ(seen.losses.size(), static_cast<std::size_t>(kSteps));
}

}  // namespace
}  // namespace ddpm::engine
