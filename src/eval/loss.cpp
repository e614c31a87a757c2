#include "eval/loss.h"

#include <algorithm>
#include <cmath>

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <fmt/ranges.h>

#include "base/counted.h"
#include "base/error.h"
#include "base/named.h"
#include "comm/collectives.h"
#include "data/valid_pixels.h"
#include "denoise/load_model.h"
#include "denoise/patch.h"
#include "denoise/validation_set.h"
#include "diffusion/formulation.h"
#include "diffusion/level_name.h"
#include "diffusion/samplers.h"
#include "diffusion/scheduler_json.h"
#include "nn/unit_executor.h"
#include "run/run_folder.h"
#include "train/config.h"

namespace ddpm::eval {
namespace {

/// A run's own configuration, where the model is one.
void read_training(LossModel& loaded) {
  const denoise::LoadedModel& model = loaded.model;
  if (model.checkpoint) {
    train::Configuration configuration;
    train::read_run_configuration(model.checkpoint->run / checkpoint::kConfigName, configuration);
    const train::Config& config = configuration.values();
    loaded.diffusion = config.diffusion;
    loaded.patch = config.data.patch;
    loaded.reading = data::dataset_options(config.data);
    return;
  }
  const auto formulation = diffusion::formulation_of(model.scheduler, model.scheduler_origin);
  loaded.diffusion.scheduler =
      diffusion::read_scheduler(model.scheduler, diffusion::default_sampler(formulation), model.scheduler_origin);
  if (!model.image.reading.variables.empty()) loaded.reading = model.image.reading;
}

/// All that says what a loss is a mean of, beside the images and the weights.
std::string meaning_of(const diffusion::DiffusionConfig& c) {
  const diffusion::SchedulerConfig& s = c.scheduler;
  std::string text = fmt::format("{} of {}", base::name_of(s.formulation), base::name_of(s.prediction_type));
  switch (s.formulation) {
    case diffusion::Formulation::ddpm:
      text += fmt::format(", {} timesteps of {} betas from {} to {}{}, snr_gamma {}", s.num_train_timesteps,
                          s.trained_betas.empty() ? base::name_of(s.beta_schedule) : "trained", s.beta_start,
                          s.beta_end, s.rescale_betas_zero_snr ? ", rescaled" : "", c.snr_gamma);
      break;
    case diffusion::Formulation::edm:
      return text + fmt::format(", sigma_data {}, p_mean {}, p_std {}", s.sigma_data, c.p_mean, c.p_std);
    case diffusion::Formulation::flow:
      text += fmt::format(", shift {}", s.shift);
      break;
    case diffusion::Formulation::regression:
      return text;
  }
  text += fmt::format(", {} timesteps", base::name_of(c.timestep_sampler));
  if (c.timestep_sampler == diffusion::TimestepSampler::logit_normal) {
    text += fmt::format(" of mean {} and deviation {}", c.logit_mean, c.logit_std);
  }
  return text;
}

/// What the model was trained on, as a set's description.
data::DatasetInfo described(const denoise::LoadedModel& model) {
  const denoise::ImageRecord& record = model.image;
  const data::ImageFormat format = record.format(model.unet->config().out_channels, record.dtype);
  data::DatasetInfo info;
  info.fields = record.fields;
  if (info.fields.empty()) {
    info.fields = data::image_fields(format, record.normalization, nn::is_class_conditional(model.unet->config()));
    record.name_variables(info.fields.front().variables);
  }
  info.class_names = record.class_names;
  return info;
}

struct Level {
  std::string name;      // "t 62", "sigma 0.21"
  int64_t quartile = 0;  // 0 to 3, as of the losses in training
};

Level level_of(const diffusion::DiffusionConfig& config, int64_t index, int64_t count) {
  const auto noise = diffusion::grid_levels(config, {index, count}, 1);
  return {.name = diffusion::level_name(config, noise), .quartile = noise.place.item<int64_t>() * 4 / noise.places};
}

/// One number of each image, and what it is called.
struct Column {
  std::string name;
  std::string variable = {};
  base::OrderedJson level = {};
  std::vector<double> numbers;
};

std::vector<double> means_over(const at::Tensor& losses) {
  const at::Tensor means = losses.flatten(1).mean(1).contiguous();
  return {means.const_data_ptr<double>(), means.const_data_ptr<double>() + means.numel()};
}

std::vector<Column> columns_of(const LossTable& table, const diffusion::DiffusionConfig& config) {
  const at::Tensor& losses = table.losses;
  const int64_t levels = losses.size(1);
  std::vector<Column> columns = {{.name = "loss", .numbers = means_over(losses)}};
  for (int64_t c = 0; c < losses.size(2) && losses.size(2) > 1; ++c) {
    columns.push_back({.name = "loss",
                       .variable = table.variables[static_cast<std::size_t>(c)],
                       .numbers = means_over(losses.select(2, c))});
  }
  if (levels == 1) return columns;
  std::vector<Level> grid;
  for (int64_t k = 0; k < levels; ++k) grid.push_back(level_of(config, k, levels));
  for (int64_t quartile = 0; quartile < 4; ++quartile) {
    const auto first = std::ranges::find(grid, quartile, &Level::quartile) - grid.begin();
    const auto of_it = std::ranges::count(grid, quartile, &Level::quartile);  // which follow each other
    if (of_it == 0) continue;
    columns.push_back(
        {.name = "loss_quartile", .level = quartile + 1, .numbers = means_over(losses.slice(1, first, first + of_it))});
  }
  for (int64_t k = 0; k < levels; ++k) {
    columns.push_back(
        {.name = "loss", .level = grid[static_cast<std::size_t>(k)].name, .numbers = means_over(losses.select(1, k))});
  }
  return columns;
}

/// The data, read as the command line says, or as the model's run reads.
data::Dataset open_data(const LossModel& loaded, const LossOptions& options, comm::Communicator& world) {
  data::DatasetOptions reading = options.reading ? *options.reading : loaded.reading.value_or(data::DatasetOptions{});
  reading.said_by = data::KeyNames::options;
  reading.threads = at::get_num_threads();  // which unpack chunks
  if (!nn::is_class_conditional(loaded.model.unet->config())) reading.labels = "";
  data::Dataset dataset = data::Dataset::open(world, options.data, reading);
  data::expect_valid_pixels(world, dataset);
  return dataset;
}

void expect_finite(const LossTable& table, const std::string& path) {
  const std::vector<double> each = means_over(table.losses);
  const auto odd = [](double loss) { return !std::isfinite(loss); };
  const auto number = std::ranges::count_if(each, odd);
  if (number == 0) return;
  throw base::NumericsError("{}: the loss of {} of {} is not finite; the first is image {}; wanted: finite losses",
                            path, number, base::counted(std::ssize(each), "image"),
                            std::ranges::find_if(each, odd) - each.begin());
}

}  // namespace

LossModel load_loss_model(const base::Path& path, const std::string& weights, const run::Runtime& runtime,
                          at::Device device, const denoise::LoadOptions& options) {
  LossModel loaded{.path = path.string(),
                   .model = denoise::load_model(path, weights, train::read_run_model, runtime, device, options)};
  denoise::prepare_for_sampling(loaded.model, at::kFloat);
  comm::agree(runtime.session.world(), [&] { read_training(loaded); });
  return loaded;
}

void expect_same_loss(const LossModel& a, const LossModel& b) {
  const std::string of_a = meaning_of(a.diffusion);
  const std::string of_b = meaning_of(b.diffusion);
  if (of_a != of_b) {
    throw base::ConfigError("--against {}: its loss is that of {}, the loss of {} that of {}; wanted: the same loss",
                            b.path, of_b, a.path, of_a);
  }
  if (a.model.mean == nullptr && b.model.mean == nullptr) return;
  const bool both = a.model.mean != nullptr && b.model.mean != nullptr;
  if (both && denoise::digest_of_weights(*a.model.mean) == denoise::digest_of_weights(*b.model.mean)) return;
  throw base::ConfigError("--against {}: its loss is of what another regression leaves than that of {}; wanted: one",
                          b.path, a.path);
}

LossTable measure_losses(const LossModel& loaded, const LossOptions& options, const run::Runtime& runtime,
                         const std::function<void(int64_t done, int64_t total)>& progress) {
  comm::Communicator& world = runtime.session.world();
  const nn::UNet2DConfig& unet = loaded.model.unet->config();
  data::Dataset dataset = open_data(loaded, options, world);
  LossTable table;
  denoise::ValidationSetOptions wanted{.images = options.count,
                                       .batch = options.batch,
                                       .seed = options.seed,
                                       .diffusion = loaded.diffusion,
                                       .positions = loaded.model.image.positions,
                                       .device = options.device,
                                       .mesh = layout::Mesh({{layout::Axis::replicate, world.size()}}, world.size())};
  comm::agree(world, [&] {
    if (options.count > dataset.size()) {
      throw base::DatasetError("--count {}: {} holds {}", options.count, options.data.string(),
                               base::counted(dataset.size(), "image"));
    }
    wanted.patch = denoise::Patch::of(dataset.image(), loaded.patch, unet);
    for (const data::Variable& variable : dataset.info().image_field().variables) {
      table.variables.push_back(variable.name);
    }
  });
  const data::DatasetInfo trained = described(loaded.model);
  denoise::ValidationSet set =
      denoise::make_validation_set(std::move(dataset), wanted,
                                   {.info = trained,
                                    .path = loaded.path,
                                    .asked = "--data",
                                    .labelled = nn::is_class_conditional(unet),
                                    .named = !loaded.model.image.fields.empty() || !loaded.model.image.names.empty()},
                                   unet, world);
  set.subtract(loaded.model.mean);
  nn::UnitExecutor executor;
  table.losses = set.grid_losses(*loaded.model.unet, executor, options.levels, progress);
  set.close();
  return table;
}

Result loss_result(const LossModel& model, const LossTable& losses, const LossModel* other,
                   const LossTable* other_losses, const LossOptions& options) {
  expect_finite(losses, model.path);
  Result result{.kind = "loss", .data = options.data, .samples = {model.path}, .count = losses.losses.size(0)};
  result.settings = {{"levels", options.levels},
                     {"seed", options.seed},
                     {"loss", meaning_of(model.diffusion)},
                     {"weights", model.model.description}};
  const std::vector<Column> columns = columns_of(losses, model.diffusion);
  for (const Column& column : columns) {
    result.metrics.push_back(
        {.name = column.name, .variable = column.variable, .level = column.level, .estimate = mean_of(column.numbers)});
  }
  if (other == nullptr) return result;
  expect_finite(*other_losses, other->path);
  result.others = {other->path};
  result.settings["against_weights"] = other->model.description;
  const std::vector<Column> others = columns_of(*other_losses, other->diffusion);
  for (std::size_t i = 0; i < columns.size(); ++i) {
    Comparison comparison = compare_paired(columns[i].numbers, others[i].numbers);
    comparison.metric = columns[i].name;
    comparison.variable = columns[i].variable;
    comparison.level = result.metrics[i].level_text();
    result.comparisons.push_back(std::move(comparison));
  }
  decide(result.comparisons);
  return result;
}

}  // namespace ddpm::eval
