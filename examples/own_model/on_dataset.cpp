// A classifier of the images of a set, on any number of ranks: on_dataset SET [FILE.toml] [--section.key VALUE ...]
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/pooling.h>

#include "run/run_program.h"
#include "train/dataset_batches.h"
#include "train/torch_module.h"

void train(const ddpm::run::Runtime& runtime, const std::string& set, const std::vector<std::string>& arguments) {
  ddpm::train::TrainerConfiguration configuration;
  configuration.values().run.directory = "runs/on_dataset";
  configuration.load(arguments, runtime.session.world());
  auto dataset = ddpm::data::Dataset::open(runtime.session.world(), set);
  at::manual_seed(static_cast<uint64_t>(configuration.values().run.seed));
  torch::nn::Sequential model(torch::nn::Conv2d(torch::nn::Conv2dOptions(dataset.image().channels, 16, 3).stride(2)),
                              torch::nn::AdaptiveAvgPool2d(4), torch::nn::Flatten(),
                              torch::nn::Linear(16 * 4 * 4, dataset.expect_classes()));
  ddpm::train::ModelTrainer trainer(configuration, runtime, ddpm::train::model_of(*model));
  {
    ddpm::train::DatasetBatches batches(trainer, dataset);
    const auto cross_entropy = [&](const ddpm::train::MicroBatchPosition& position) {
      const auto batch = batches.next(position);
      const at::Tensor& labels = batch.conditions.class_labels;
      const at::Tensor scores = model->forward(batch.x0.to(trainer.compute_dtype())).to(at::kFloat);
      trainer.log({{"accuracy", scores.argmax(1).eq(labels).to(at::kDouble).mean().item<double>()},
                   {"brightness", batch.x0.mean().item<double>()}});
      return at::cross_entropy_loss(scores, labels, {}, at::Reduction::Sum);
    };
    for (trainer.resume(); !trainer.done();) (void)trainer.step(cross_entropy);
  }
  dataset.close(runtime.session.world());
}

int main(int argc, char** argv) {
  return ddpm::run::run_program(argc, argv, [&](const ddpm::run::Runtime& runtime) {
    if (argc < 2) throw ddpm::base::ConfigError("wanted: on_dataset SET [--section.key VALUE ...]");
    train(runtime, argv[1], std::vector<std::string>(argv + 2, argv + argc));
  });
}
