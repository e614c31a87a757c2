#include "train/optimizer_step.h"

#include <algorithm>
#include <array>
#include <span>
#include <vector>

#include "train/batch.h"

namespace ddpm::train {
OptimizerStep::OptimizerStep(const Setup& setup, ModelState& model, comm::Communicator& world,
                             comm::Communicator& data_parallel, Supervision& supervision)
    : setup_(setup),
      config_(setup.config),
      model_(model),
      world_(world),
      supervision_(supervision),
      schedule_(config_.diffusion.scheduler, setup.place.device),
      feeder_(setup.dataset.image(), setup.place.device),
      checkpointer_(parallel::parse_activation_checkpointing(config_.parallel.activation_checkpointing)),
      step_(rules_of(config_, setup.place, setup.total_steps), model, world, data_parallel, &checkpointer_) {
  step_.on_phase([this](comm::Phase phase) { supervision_.enter(phase, model_.progress.step + 1); });
}

std::optional<StepOutcome> OptimizerStep::run(data::BatchLoader& loader) {
  clock_.begin(loader.seconds_waited());
  StepOutcome outcome;
  outcome.loss_scale = step_.loss_scale();
  const std::optional<LossSums> own = accumulate(loader);
  if (!own) return std::nullopt;
  std::array<double, LossSums::kCount + Supervision::kVotes> sums{};
  const std::span<double, LossSums::kCount> losses = std::span(sums).first<LossSums::kCount>();
  own->pack(losses);
  std::ranges::copy(supervision_.votes(), sums.begin() + LossSums::kCount);
  const UpdateOutcome update = step_.update(sums);
  supervision_.decide(std::span(sums).last<Supervision::kVotes>(), model_.progress.step);
  outcome.sums.unpack(losses);
  outcome.gradient_norm = update.gradient_norm;
  outcome.learning_rate = update.learning_rate;
  outcome.times = clock_.end(world_, loader.seconds_waited(), step_.take_exposed_seconds());
  return outcome;
}

std::optional<LossSums> OptimizerStep::accumulate(data::BatchLoader& loader) {
  const auto seed = static_cast<uint64_t>(config_.run.seed);
  const DenoisingStep denoising{model_.unet,
                                schedule_,
                                config_.diffusion,
                                seed,
                                step_.weights(),  // centering, 2x - 1, is done in float32
                                setup_.model.center_input_sample ? at::kFloat : setup_.place.compute_dtype};
  const std::optional<uint64_t> flip_seed = config_.data.horizontal_flip ? std::optional(seed) : std::nullopt;
  std::vector<at::Tensor> rows;
  const int64_t step = model_.progress.step + 1;
  const auto forward_backward = [&](int64_t /*micro*/, double loss_factor) {
    supervision_.enter(comm::Phase::images, step);
    step_.parts().enter(StepPart::data);
    const StoredBatch stored = feeder_.next(loader);
    supervision_.enter(comm::Phase::model, step);
    const ModelBatch batch = model_batch(stored, setup_.dataset.info().normalization, flip_seed);
    rows.push_back(denoising.forward_backward(batch, loss_factor, step_.parts()));
    feeder_.read_ahead(loader);
  };
  if (!step_.accumulate(forward_backward, [this] { return supervision_.interrupted(); })) return std::nullopt;
  return tree_sum(rows);
}

}  // namespace ddpm::train
