// A regression on samples of a function, trained on any number of ranks: see README.md.
#include <algorithm>
#include <cstdio>

#include <ATen/CPUGeneratorImpl.h>
#include <torch/nn/modules/linear.h>

#include "run/run_program.h"
#include "train/model_trainer.h"
#include "train/torch_module.h"

using ddpm::train::MicroBatchPosition;

struct Regression : torch::nn::Module {
  torch::nn::Linear first = register_module("first", torch::nn::Linear(2, 64));
  torch::nn::Linear second = register_module("second", torch::nn::Linear(64, 64));
  torch::nn::Linear last = register_module("last", torch::nn::Linear(64, 1));

  at::Tensor forward(const at::Tensor& x) { return last(torch::silu(second(torch::silu(first(x))))); }
};

/// The micro-batch's points in a square: functions of step and position alone, so that the number of ranks changes
/// nothing.
at::Tensor points(const MicroBatchPosition& position) {
  const at::Tensor x = torch::empty({position.count, 2});
  for (int64_t i = 0; i < position.count; ++i) {
    x[i].uniform_(-1, 1, at::detail::createCPUGenerator(position.step * 100000 + position.first + i));
  }
  return x;
}

void train(const ddpm::run::Runtime& runtime, std::vector<std::string> arguments) {
  ddpm::train::TrainerConfiguration configuration;
  configuration.values().run.directory = "runs/own_model";
  configuration.values().steps = 200;
  configuration.values().batch = {.global_size = 64, .micro_size = 8};
  configuration.values().optimizer.learning_rate = 3e-3;
  configuration.values().lr_schedule.name = ddpm::optim::LrShape::constant;
  std::ranges::replace(arguments, "--zero-stage", "--parallel.zero_stage");
  configuration.load(arguments, runtime.session.world());

  at::manual_seed(static_cast<uint64_t>(configuration.values().run.seed));
  Regression model;
  ddpm::train::ModelTrainer trainer(configuration, runtime, ddpm::train::model_of(model));
  const auto squared_errors = [&](const MicroBatchPosition& position) {
    const at::Tensor x = points(position).to(trainer.device());
    const at::Tensor wanted = torch::sin(3 * x.select(1, 0)) * x.select(1, 1);
    const at::Tensor y = model.forward(x.to(trainer.compute_dtype())).squeeze(1);
    return torch::mse_loss(y.to(torch::kFloat), wanted, at::Reduction::Sum);
  };
  ddpm::train::StepResult result;
  for (trainer.resume(); !trainer.done();) result = trainer.step(squared_errors);
  if (runtime.log.speaks() && result.learning_rate > 0) std::printf("final loss %.6f\n", result.loss);
}

int main(int argc, char** argv) {
  return ddpm::run::run_program(argc, argv, [&](const ddpm::run::Runtime& runtime) {
    train(runtime, std::vector<std::string>(argv + 1, argv + argc));
  });
}
