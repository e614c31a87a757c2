#include "train/validation.h"

#include <algorithm>
#include <cmath>

#include <ATen/Parallel.h>

#include "base/clock.h"
#include "base/counted.h"
#include "comm/collectives.h"
#include "data/valid_pixels.h"
#include "denoise/null_class.h"
#include "train/grid_losses.h"

namespace ddpm::train {
namespace {

/// "24 images in 1.5 s", and what images without a valid pixel do to their mean.
std::string how_measured(const denoise::ImageLosses& losses, double seconds) {
  std::string text = fmt::format("{} in {:.1f} s", base::counted(losses.each.size(), "image"), seconds);
  if (losses.blank == 0) return text;
  text += fmt::format("; those without a valid pixel, {}, count as 0", losses.blank);
  if (losses.blank == std::ssize(losses.each)) return text;
  return fmt::format("{}, and the mean of the others is {:.6f}", text, losses.mean_of_valid());
}

}  // namespace

denoise::ValidationSet open_validation_set(const Config& config, const data::Dataset& training,
                                           const FittedModel& model, at::Device device, const layout::Mesh& mesh,
                                           comm::Communicator& world) {
  const denoise::ValidationSetOptions options{.images = config.validation.images,
                                              .batch = config.batch.micro_size,
                                              .seed = static_cast<uint64_t>(config.run.seed),
                                              .diffusion = config.diffusion,
                                              .positions = config.data.positions,
                                              .patch = model.patch,
                                              .device = device,
                                              .mesh = mesh,
                                              .tiling = model.tiling};
  auto set =
      data::Dataset::open(world, *config.data.validation, data::dataset_options(config.data, at::get_num_threads()));
  data::expect_valid_pixels(world, set);
  if (config.diffusion.class_dropout > 0.0) {
    comm::agree(world, [&] { denoise::expect_room_for_null_class(model.unet, set); });
  }
  const denoise::TrainedImages trained{
      .info = training.info(), .path = training.path().string(), .labelled = !training.labels().empty()};
  return denoise::make_validation_set(std::move(set), options, trained, model.unet, world);
}

Validation::Validation(const Task& task, comm::Communicator& world, run::Supervision& supervision,
                       const base::Logger& log)
    : task_(task), supervision_(supervision), log_(log) {
  if (task.config.validation.every_steps == 0) return;
  set_.emplace(open_validation_set(task.config, task.dataset, task.fitted, task.place.device, task.place.mesh, world));
  set_->subtract(task.mean);
}

void Validation::watch(DenoisingStep& step, const nn::UNet2D& unet) {
  step_ = &step;
  unet_ = &unet;
  if (set_) set_->use_tiles(step.tiles());
}

/// A run that is about to stop skips validations, except the last one.
bool Validation::due(const FinishedStep& step) const {
  return set_ && step.ends_interval(task_.config.validation.every_steps);
}

void Validation::run(FinishedStep& step) {
  const auto began = base::Clock::now();
  const int64_t levels = task_.config.validation.levels;
  denoise::ImageLosses losses;
  at::Tensor grid;
  bool measured = false;
  step_->with_model_weights([&](nn::UnitExecutor& executor) {
    measured = supervision_.run_in_parts(
        {.phase = engine::RunPhase::validation, .step = step.step, .may_be_given_up = !step.last},
        [&](const std::function<void()>& next_part) {
          const auto progress = [&](int64_t /*done*/, int64_t /*total*/) { next_part(); };
          losses = set_->losses(*unet_, executor, progress);
          if (levels > 0) grid = set_->grid_losses(*unet_, executor, levels, progress);
        });
  });
  if (!measured) return;
  const double seconds = base::seconds_since(began);

  const double loss = losses.mean();
  if (!std::isfinite(loss)) warn_of_losses_that_are_not_finite(losses.each, step.step);
  step.validated = {.loss = loss, .how = how_measured(losses, seconds)};
  if (levels == 0) return;
  step.result.validation_loss_levels = losses_by_level(grid, task_.config.diffusion);
  step.result.validation_loss_variables = losses_by_variable(grid, task_.dataset.info().image_field());
}

void Validation::warn_of_losses_that_are_not_finite(const std::vector<double>& losses, int64_t step) const {
  const auto odd = [](double loss) { return !std::isfinite(loss); };
  log_.warn("step {}: of {}, {} had a validation loss that is not finite; the first is image {}", step,
            base::counted(losses.size(), "image"), std::ranges::count_if(losses, odd),
            std::ranges::find_if(losses, odd) - losses.begin());
}

void Validation::close() {
  if (set_) set_->close();
}

}  // namespace ddpm::train
