#include "engine/step_case.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/log.h"
#include "data/sample_set.h"

namespace ddpm::engine::test {
namespace {

constexpr data::ImageFormat kFormat = {.height = 8, .width = 8, .channels = 3, .dtype = base::DType::u8};

std::string toml(const std::string& folder, const StepCase& chosen) {
  return fmt::format(R"(
[run]
directory = "{0}/run"
seed = 3
device = "cpu"
threads_per_rank = 1
{4}
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
micro_size = {5}
[train]
steps = {1}
[optimizer]
learning_rate = 1e-2
[lr_schedule]
warmup_steps = 3
[precision]
mixed_precision = "{2}"
initial_loss_scale = 2097152.0
loss_scale_window = 2
[parallel]
{3}
)",
                     folder, chosen.steps, chosen.precision, chosen.parallel, chosen.run,
                     ddpm::test::world().size() == 1 ? 4 : 2);
}

}  // namespace

void StepCaseTest::SetUp() {
  SharedFolderTest::SetUp();
  on_rank_0([&] { data::write_sample_set(folder_ / "train", kFormat, /*has_labels=*/true, {7, 6}); });
}

Trained StepCaseTest::train(StepCase chosen) {
  train::Configuration configuration;
  const auto files = base::posix_file_system();
  configuration.load_text(*files, toml(folder_.string(), chosen), "test");
  comm::Communicator& world = ddpm::test::world();
  const base::Logger log(world.rank(), world.size());
  const run::Runtime runtime{ddpm::test::session(), *files, log};
  train::Task task = train::Task::make(configuration, runtime);
  task.place.device = chosen.device;
  train::UNetState model(task.fitted.unet, 1, task.place.compute_dtype, task.place.device, task.place.sharding);
  run::Supervision supervision(task.config.fault, runtime);
  comm::Communicator& data_parallel = chosen.data_parallel ? *chosen.data_parallel : world;
  train::DenoisingStep step(task, model, world, data_parallel, supervision,
                            StepGraph(std::move(chosen.graph), world, log));
  model.initialize(5);
  step.state_changed();
  std::optional<data::BatchLoader> loader;
  loader.emplace(task.dataset, task.order, task.loading(0, chosen.steps));
  Trained trained;
  const bool settles = chosen.after_step != nullptr || chosen.between != nullptr;
  for (int64_t i = 1; i <= chosen.steps; ++i) {
    EXPECT_TRUE(step.begin(*loader));
    trained.most_ahead = std::max(trained.most_ahead, step.last_begun() - model.progress.step);
    while (const auto outcome = step.finished(settles || i == chosen.steps)) {
      trained.losses.push_back(outcome->loss);
      trained.norms.push_back(outcome->gradient_norm);
    }
    if (chosen.after_step) chosen.after_step(model, task.place);
    if (chosen.between) chosen.between(step);
  }
  EXPECT_EQ(model.progress.step, chosen.steps);
  EXPECT_GE(model.progress.applied_updates, 2) << "the weights are nearly those of the start";
  trained.weights = model.arena.master().front().to(at::kCPU).clone();
  loader.reset();
  task.dataset.close(world);
  return trained;
}

}  // namespace ddpm::engine::test
