#include "train/model_trainer_case.h"

#include <ATen/Functions.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/sin.h>
#include <ATen/ops/stack.h>
#include <fmt/format.h>

#include "comm/collectives.h"
#include "support/mpi_test.h"

namespace ddpm::train::test {

comm::MpiSession& session() { return ddpm::test::session(); }
comm::Communicator& world() { return ddpm::test::world(); }

at::Tensor values(at::IntArrayRef shape, double frequency) {
  int64_t count = 1;
  for (const int64_t n : shape) count *= n;
  return at::sin(at::arange(count, at::kFloat) * frequency).mul_(0.5).reshape(shape);
}

OwnModel Model::own(std::vector<std::string> units) const {
  constexpr auto kConstant = base::ParameterRole::constant;
  return {{{"head.weight", linear},
           {"body.conv", conv},
           {"head.bias", bias},
           {"body.scale", scale, kConstant},
           {"calls", calls, kConstant}},
          std::move(units)};
}

at::Tensor Model::body(const at::Tensor& x) const {
  const at::Tensor y = at::silu(at::conv2d(x, alias, {}, 1, 1) * scale.to(x.scalar_type()));
  return y.mean(at::IntArrayRef{2, 3});
}

at::Tensor Model::head(const at::Tensor& x) const { return at::linear(x, linear, {}) + bias; }

at::Tensor images(const MicroBatchPosition& position) {
  std::vector<at::Tensor> list;
  for (int64_t i = 0; i < position.count; ++i) {
    list.push_back(values({1, 6, 6}, 0.1 + 0.05 * static_cast<double>((position.first + i + 5 * position.step) % 16)));
  }
  return at::stack(list);
}

std::string Case::text() const { return fmt::format("stage {} units {} {}", stage, units.size(), precision); }

void configure(TrainerConfiguration& configuration, const Case& chosen, const base::Path& directory) {
  TrainerConfig& c = configuration.values();
  c.run.directory = directory;
  c.run.device = device::DeviceChoice::cpu;
  c.run.threads_per_rank = 1;
  c.run.reproducible = chosen.reproducible;
  c.batch = {.global_size = kGlobalSize, .micro_size = chosen.micro_size};
  c.steps = chosen.steps;
  c.optimizer = {.learning_rate = 1e-2, .eps = 1e-4};
  c.lr_schedule.name = optim::LrShape::constant;
  c.parallel.zero_stage = chosen.stage;
  c.precision.mixed_precision = base::find_named<optim::MixedPrecision>(chosen.precision).value();
  c.checkpoint.every_steps = chosen.every;
  c.checkpoint.async = false;  // train() leaves early without save(): what is on its way then would be lost
  configuration.load({}, world());
}

Result train(const Case& chosen, const base::Path& directory, int64_t stop_after) {
  const base::Logger log(1, world().size());  // says nothing
  const auto files = base::posix_file_system();
  TrainerConfiguration configuration;
  configure(configuration, chosen, directory);
  Model model;
  if (world().rank() > 0) model.linear.fill_(7.0);  // rank 0's initial values count
  ModelTrainer trainer(configuration, {session(), *files, log}, model.own(chosen.units));
  Result result;
  result.resumed = trainer.resume();
  while (!trainer.done() && stop_after-- > 0) {
    const StepResult step = trainer.step([&](const MicroBatchPosition& position) {
      model.calls += 1;
      const at::Tensor x = images(position).to(trainer.compute_dtype());
      at::Tensor y;
      if (chosen.units.empty()) {
        y = model.head(model.body(x));
      } else {
        const at::Tensor features = trainer.run_unit("body", [&] { return model.body(x); });
        y = trainer.run_unit("head", [&] { return model.head(features); });
      }
      return (y.to(at::kFloat) - 0.3).square().sum();
    });
    result.losses.push_back(step.loss);
    result.norms.push_back(step.gradient_norm);
  }
  result.weights = trainer.weights();
  result.calls = model.calls.item<int64_t>();
  return result;
}

base::Path shared_folder(const ddpm::test::TemporaryFolder& own) {
  return comm::broadcast(world(), own.path().string());
}

}  // namespace ddpm::train::test
