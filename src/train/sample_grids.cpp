#include "train/sample_grids.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include <ATen/Parallel.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/isfinite.h>

#include "base/clock.h"
#include "base/counted.h"
#include "comm/collectives.h"
#include "denoise/image_values.h"
#include "denoise/null_class.h"
#include "denoise/sample_inputs.h"
#include "denoise/sample_picture.h"
#include "denoise/sampling.h"
#include "diffusion/samplers.h"
#include "diffusion/scheduler_json.h"
#include "observe/picture_files.h"
#include "observe/png_encoder.h"

namespace ddpm::train {
namespace {

/// Whether the model is given something of a set's images.
bool is_given_fields(const nn::UNet2DConfig& unet) {
  return unet.in_channels != unet.out_channels || unet.num_parameters.has_value();
}

/// The model as sampling sees it; it borrows the network that is trained.
denoise::LoadedModel model_of(const Task& task, nn::UNet2D& unet) {
  denoise::LoadedModel model;
  model.unet = std::shared_ptr<nn::UNet2D>(std::shared_ptr<void>(), &unet);
  model.image = task.image_record();
  model.scheduler = diffusion::write_scheduler(task.config.diffusion.scheduler);
  model.scheduler_origin = "diffusion";
  model.class_dropout = task.config.diffusion.class_dropout;
  model.condition_dropout = task.config.diffusion.condition_dropout;
  model.mean = task.mean;
  return model;
}

/// The set whose first images say what is drawn; none where nothing of a set is needed.
std::optional<data::Dataset> open_given(const Task& task, const nn::UNet2DConfig& unet, comm::Communicator& world) {
  const bool labels = nn::is_class_conditional(unet) && !denoise::has_class_table(unet);
  if (!is_given_fields(unet) && !labels) return std::nullopt;
  const Config& config = task.config;
  const auto options = data::dataset_options(config.data, at::get_num_threads());
  if (config.validation.every_steps > 0) return data::Dataset::open(world, *config.data.validation, options);
  return data::Dataset::open(world, task.sources, options);
}

/// As many members of each of the set's conditions as make `count` samples.
denoise::SampleInputOptions inputs_for(const nn::UNet2DConfig& unet, const std::optional<data::Dataset>& given,
                                       int64_t count) {
  denoise::SampleInputOptions options;
  if (given) options.members = (count + given->size() - 1) / given->size();
  options.all_classes = denoise::has_class_table(unet) && (!given || given->labels().empty());
  return options;
}

/// A column for each class, where there are as many samples as classes.
int64_t columns_of(const denoise::SampleInputs& inputs, int64_t count) {
  if (count < 2 || !inputs.label(0) || inputs.samples() > 0) return 0;
  int64_t classes = 1;
  while (classes < count && inputs.label(classes) != inputs.label(0)) ++classes;
  return classes < count ? classes : 0;
}

}  // namespace

void expect_drawable(const Config& config, const FittedModel& fitted) {
  if (config.sample.every_steps == 0 || !fitted.patch.cuts() || !is_given_fields(fitted.unet)) return;
  throw base::ConfigError(
      "sample.every_steps = {}: with data.patch, a model that is given fields or positions is not drawn while it is "
      "trained; wanted: 0, and ddpm sample --size",
      config.sample.every_steps);
}

struct SampleGrids::Drawing {
  denoise::LoadedModel model;
  std::optional<denoise::SampleInputs> inputs;
  denoise::SamplingOptions options;
  std::unique_ptr<diffusion::Sampler> sampler;
  std::optional<denoise::SamplePicture> picture;
  int64_t columns = 0;
};

SampleGrids::SampleGrids(const Task& task, nn::UNet2D& unet, DenoisingStep& step, run::RunFolder& folder,
                         run::Supervision& supervision, const run::Runtime& runtime)
    : task_(task),
      step_(step),
      folder_(folder),
      supervision_(supervision),
      runtime_(runtime),
      world_(runtime.session.world()) {
  const Config& config = task.config;
  if (config.sample.every_steps == 0) return;
  comm::agree(world_, [&] { expect_drawable(config, task.fitted); });
  drawing_ = std::make_unique<Drawing>();
  Drawing& d = *drawing_;
  d.model = model_of(task, unet);
  const int64_t count = config.sample.count;
  auto given = open_given(task, unet.config(), world_);
  const denoise::SampleInputOptions inputs = inputs_for(unet.config(), given, count);
  d.inputs.emplace(denoise::SampleInputs::of_set(d.model, inputs, std::move(given), world_, task.place.device));
  d.options.sampler = config.sample.sampler(config.diffusion.scheduler);
  d.options.seed = static_cast<uint64_t>(config.run.seed);
  d.options.count = count;
  d.options.batch = std::min(count, config.batch.micro_size);
  d.sampler = config.sample.make(config.diffusion.scheduler);
  d.picture.emplace(d.model.image, unet.config().out_channels, denoise::image_values(task.dataset, world_));
  d.columns = columns_of(*d.inputs, count);
}

SampleGrids::~SampleGrids() = default;

/// A run that is about to stop skips pictures, except the last one.
bool SampleGrids::due(const FinishedStep& step) const {
  return drawing_ && step.ends_interval(task_.config.sample.every_steps);
}

void SampleGrids::run(FinishedStep& step) {
  const auto began = base::Clock::now();
  Drawing& d = *drawing_;
  const denoise::SamplingOptions& options = d.options;
  std::vector<at::Tensor> drawn;  // on rank 0
  bool complete = false;
  step_.with_model_weights([&](nn::UnitExecutor& executor) {
    denoise::BatchSampler sampler(
        d.model, *d.sampler, *d.inputs, options,
        denoise::seeded_noise(options.seed, d.model, *step_.tiles().model, task_.place.device), task_.place.device);
    sampler.run_units_by(executor);
    sampler.use_tiles(step_.tiles());
    complete = supervision_.run_in_parts(
        {.phase = engine::RunPhase::samples, .step = step.step, .may_be_given_up = !step.last},
        [&](const std::function<void()>& next_part) {
          denoise::sample_together(
              sampler, options, [&](int64_t /*first*/, const at::Tensor& images) { drawn.push_back(images); }, world_,
              task_.place.mesh, [&](std::size_t /*done*/, std::size_t /*total*/) { next_part(); });
        });
  });
  if (!complete) return;
  comm::do_on_root(world_, [&] { step.pictures.push_back(make_picture(at::cat(drawn), step.step)); });
  step.drawn = true;
  runtime_.log.info("step {}: {} drawn in {:.1f} s: {}", step.step, base::counted(options.count, "sample"),
                    base::seconds_since(began), (folder_.samples() / observe::picture_name(step.step)).string());
}

observe::Picture SampleGrids::make_picture(const at::Tensor& samples, int64_t step) const {
  const int64_t odd = samples.numel() - samples.isfinite().sum().item<int64_t>();
  if (odd > 0)
    runtime_.log.warn("step {}: {} of the samples are not finite, and black", step, base::counted(odd, "value"));
  const observe::Image grid = drawing_->picture->draw(samples, drawing_->columns);
  runtime_.files.create_directories(folder_.samples());
  std::string png = observe::encode_png(grid.pixels_hwc, grid.height, grid.width, grid.channels);
  base::write_atomically(runtime_.files, folder_.samples() / observe::picture_name(step), png);
  return {
      .tag = "samples", .height = grid.height, .width = grid.width, .channels = grid.channels, .png = std::move(png)};
}

void SampleGrids::close() {
  if (drawing_) drawing_->inputs->close(world_);
}

}  // namespace ddpm::train
