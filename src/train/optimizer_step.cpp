#include "train/optimizer_step.h"

#include <array>
#include <vector>

#include "train/batch.h"

namespace ddpm::train {
namespace {

StepRules rules_of(const Setup& setup) {
  const Config& config = setup.config;
  return {.layout = setup.layout,
          .sizes = setup.sizes,
          .total_steps = setup.total_steps,
          .reproducible = config.run.reproducible,
          .parallel = config.parallel,
          .optimizer = config.optimizer,
          .lr_schedule = config.lr_schedule,
          .ema = config.ema,
          .precision = config.precision};
}

}  // namespace

OptimizerStep::OptimizerStep(const Setup& setup, ModelState& model, comm::Communicator& world,
                             comm::Communicator& data_parallel)
    : setup_(setup),
      config_(setup.config),
      model_(model),
      world_(world),
      schedule_(config_.diffusion.scheduler),
      checkpointer_(parallel::parse_activation_checkpointing(config_.parallel.activation_checkpointing)),
      step_(rules_of(setup), model, world, data_parallel, &checkpointer_) {}

StepOutcome OptimizerStep::run(data::BatchLoader& loader) {
  clock_.begin(loader.seconds_waited());
  StepOutcome outcome;
  outcome.loss_scale = step_.loss_scale();
  std::array<double, LossSums::kCount> sums{};
  accumulate(loader).pack(sums);
  const UpdateOutcome update = step_.update(sums);
  outcome.sums.unpack(sums);
  outcome.gradient_norm = update.gradient_norm;
  outcome.learning_rate = update.learning_rate;
  outcome.times = clock_.end(world_, loader.seconds_waited(), step_.take_exposed_seconds());
  return outcome;
}

LossSums OptimizerStep::accumulate(data::BatchLoader& loader) {
  const DenoisingStep denoising{model_.unet, schedule_, config_.diffusion, static_cast<uint64_t>(config_.run.seed),
                                step_.weights()};
  std::vector<LossSums> sums;
  step_.accumulate([&](int64_t /*micro*/, double loss_factor) {
    const data::MicroBatch batch = loader.next();
    at::Tensor x0 = normalize(batch, setup_.dataset.image(), setup_.dataset.info().normalization, setup_.device);
    if (config_.data.horizontal_flip) x0 = random_horizontal_flip(x0, batch, denoising.seed);
    sums.push_back(denoising.forward_backward(batch, x0, label_tensor(batch, setup_.device), loss_factor));
  });
  return tree_sum(sums);
}

}  // namespace ddpm::train
