#include "eval/loss.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <fmt/ranges.h>

#include "base/counted.h"
#include "base/error.h"
#include "base/named.h"
#include "base/sha256.h"
#include "comm/collectives.h"
#include "data/valid_pixels.h"
#include "denoise/load_model.h"
#include "denoise/patch.h"
#include "denoise/validation_set.h"
#include "diffusion/formulation.h"
#include "diffusion/level_name.h"
#include "diffusion/samplers.h"
#include "diffusion/scheduler_json.h"
#include "eval/left_out.h"
#include "eval/same_rows.h"
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
  if (model.image.reading.variables.empty()) return;
  loaded.reading = model.image.reading;
  loaded.reading->mask_use = data::MaskUse::optional;
}

std::string schedule_text(const diffusion::SchedulerConfig& s) {
  if (s.trained_betas.empty()) {
    return fmt::format("{} betas from {} to {}", base::name_of(s.beta_schedule), s.beta_start, s.beta_end);
  }
  base::Sha256 digest;
  digest.update(std::as_bytes(std::span(s.trained_betas)));
  return fmt::format("trained betas {}", digest.hex().substr(0, 12));
}

/// All that says what a loss is a mean of, beside the images and the weights.
std::string meaning_of(const LossModel& model) {
  const diffusion::DiffusionConfig& c = model.diffusion;
  const diffusion::SchedulerConfig& s = c.scheduler;
  std::string text = fmt::format("{} of {}", base::name_of(s.formulation), base::name_of(s.prediction_type));
  if (!model.patch.empty()) text += fmt::format(", windows of {}", fmt::join(model.patch, " × "));
  if (c.offset_noise > 0.0) text += fmt::format(", offset_noise {}", c.offset_noise);
  switch (s.formulation) {
    case diffusion::Formulation::ddpm:
      text += fmt::format(", {} timesteps of {}{}, snr_gamma {}", s.num_train_timesteps, schedule_text(s),
                          s.rescale_betas_zero_snr ? ", rescaled" : "", c.snr_gamma);
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

/// Whether it is known what the variables are called that the model was trained on.
bool names_variables(const denoise::LoadedModel& model) {
  return !model.image.fields.empty() || !model.image.names.empty();
}

/// Throws ConfigError unless the losses are of the same variables, in whatever order.
void expect_same_variables(const LossModel& a, const LossModel& b, const char* option) {
  const auto sorted_names = [](const LossModel& model) {
    const data::DatasetInfo info = described(model.model);
    std::vector<std::string> names;
    for (const data::Variable& each : info.image_field().variables) names.push_back(each.name);
    std::ranges::sort(names);
    return names;
  };
  const std::vector<std::string> of_a = sorted_names(a);
  const std::vector<std::string> of_b = sorted_names(b);
  const bool named = names_variables(a.model) && names_variables(b.model);
  if (named ? of_a == of_b : of_a.size() == of_b.size()) return;
  throw base::ConfigError("{} {}: its loss is of {}, the loss of {} of {}; wanted: the same variables", option, b.path,
                          fmt::join(of_b, ", "), a.path, fmt::join(of_a, ", "));
}

/// A set's own description decides what both models see of it; a bare file has none, and each sees it as in training.
void expect_same_transforms(const LossModel& a, const LossModel& b, const char* option) {
  const data::DatasetInfo seen_by_a = described(a.model);
  const data::DatasetInfo seen_by_b = described(b.model);
  const std::vector<data::Variable>& of_a = seen_by_a.image_field().variables;
  const std::vector<data::Variable>& of_b = seen_by_b.image_field().variables;
  const bool named = names_variables(a.model) && names_variables(b.model);
  for (std::size_t v = 0; v < of_b.size(); ++v) {
    const data::Variable& other = of_b[v];
    const data::Variable& one = named ? *std::ranges::find(of_a, other.name, &data::Variable::name) : of_a[v];
    if (one.transform == other.transform) continue;
    throw base::ConfigError("{} {}: its loss is of {} by {}, the loss of {} of it by {}; wanted: the same values",
                            option, b.path, other.name, other.transform.text(), a.path, one.transform.text());
  }
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

const data::Field* learned_mask(const LossModel& loaded) {
  return field_of(loaded.model.image.fields, data::FieldRole::mask);
}

/// Where nothing says which mask is read, it is the one that the model learned with, of files that have it.
void add_learned_mask(const LossModel& loaded, data::DatasetOptions& reading) {
  const data::DatasetOptions& learned = loaded.model.image.reading;
  const data::Field* mask = learned_mask(loaded);
  const bool is_said = !reading.mask.empty() || reading.missing != data::Missing::refuse;
  if (mask == nullptr || is_said || reading.variables.empty() != learned.variables.empty()) return;
  reading.mask_use = data::MaskUse::optional;
  reading.mask = learned.variables.empty() ? mask->path : learned.mask;
  reading.missing = learned.missing;
}

/// The data, read as the command line says, or as the model's run reads.
data::Dataset open_data(const LossModel& loaded, const LossOptions& options, comm::Communicator& world) {
  data::DatasetOptions reading = options.reading ? *options.reading : loaded.reading.value_or(data::DatasetOptions{});
  reading.said_by = data::KeyNames::options;
  reading.threads = at::get_num_threads();  // which unpack chunks
  if (!nn::is_class_conditional(loaded.model.unet->config())) reading.labels = "";
  add_learned_mask(loaded, reading);
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

/// Which images of the data are read, and which of their pixels count.
std::string images_of(const data::Dataset& dataset) {
  const data::DatasetOptions& reading = dataset.reading();
  const data::Field* mask = field_of(dataset.info().fields, data::FieldRole::mask);
  const bool composed = !reading.variables.empty();
  std::string text = base::counted(dataset.size(), "image");
  if (!composed) text += fmt::format(" of {}", dataset.info().image_field().path);
  if (composed && reading.lead > 0) text += fmt::format(", lead {}", reading.lead);
  if (composed && !reading.sample_axes.empty()) text += fmt::format(" along {}", fmt::join(reading.sample_axes, ", "));
  if (mask == nullptr) return text;
  const std::string& name = composed ? reading.mask : mask->path;
  if (!name.empty()) text += fmt::format(", mask {}", name);
  if (composed && reading.missing == data::Missing::mask) text += ", mask of missing values";
  return text;
}

/// Losses of other images are not compared, nor some that are means over all pixels with others over valid ones.
void expect_same_images(const LossSide& a, const LossSide& b) {
  const LossTable& first = a.losses.front();
  for (const LossSide* side : {&a, &b}) {
    for (std::size_t m = 0; m < side->losses.size(); ++m) {
      const LossTable& table = side->losses[m];
      if (table.masked != first.masked) {
        const auto counted = [](bool masked) { return masked ? "valid pixels" : "all pixels"; };
        throw base::ConfigError("{}: its loss counts {}, that of {} {}; wanted: --mask, which holds for all models",
                                side->models[m].path, counted(table.masked), a.models.front().path,
                                counted(first.masked));
      }
      if (table.images == first.images) continue;
      throw base::ConfigError(
          "{}: its run reads {}, that of {} {}; wanted: the same images, as options like --lead and --mask have all "
          "models read",
          side->models[m].path, table.images, a.models.front().path, first.images);
    }
  }
}

Metric metric_of(const Column& column, const Estimate& estimate = {}) {
  return {.name = column.name, .variable = column.variable, .level = column.level, .estimate = estimate};
}

/// What is told of each model of both sides, those of A first.
std::vector<std::vector<Column>> columns_of(const LossSide& a, const LossSide& b) {
  std::vector<std::vector<Column>> columns;
  for (const LossSide* side : {&a, &b}) {
    for (std::size_t m = 0; m < side->models.size(); ++m) {
      expect_finite(side->losses[m], side->models[m].path);
      columns.push_back(columns_of(side->losses[m], side->models[m].diffusion));
    }
  }
  return columns;
}

/// One column of every model, as the two sides of a comparison.
std::array<Side, 2> sides_of(const std::vector<std::vector<Column>>& columns, const std::vector<std::size_t>& places,
                             std::size_t of_a) {
  std::array sides = {Side{.sets = {}}, Side{.sets = {}, .sign = -1.0}};
  for (std::size_t m = 0; m < columns.size(); ++m) {
    const std::vector<double>& losses = columns[m][places[m]].numbers;
    sides.at(m < of_a ? 0 : 1).sets.push_back({.whole = mean_of(losses).value, .without = means_without(losses)});
  }
  return sides;
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

void expect_same_loss(const LossModel& a, const LossModel& b, const char* option) {
  const std::string of_a = meaning_of(a);
  const std::string of_b = meaning_of(b);
  if (of_a != of_b) {
    throw base::ConfigError("{} {}: its loss is that of {}, the loss of {} that of {}; wanted: the same loss", option,
                            b.path, of_b, a.path, of_a);
  }
  expect_same_variables(a, b, option);
  expect_same_transforms(a, b, option);
  if (a.model.mean == nullptr && b.model.mean == nullptr) return;
  const bool both = a.model.mean != nullptr && b.model.mean != nullptr;
  if (both && denoise::digest_of_weights(*a.model.mean) == denoise::digest_of_weights(*b.model.mean)) return;
  throw base::ConfigError("{} {}: its loss is of what another regression leaves than that of {}; wanted: one", option,
                          b.path, a.path);
}

LossTable measure_losses(const LossModel& loaded, const LossOptions& options, const run::Runtime& runtime,
                         const base::ProgressReport& progress) {
  comm::Communicator& world = runtime.session.world();
  const nn::UNet2DConfig& unet = loaded.model.unet->config();
  data::Dataset dataset = open_data(loaded, options, world);
  LossTable table;
  table.images = images_of(dataset);
  table.masked = field_of(dataset.info().fields, data::FieldRole::mask) != nullptr;
  if (!table.masked && learned_mask(loaded) != nullptr) {
    runtime.log.warn(
        "{}: the model was trained with a mask, and {} has none: its loss counts all pixels; wanted: "
        "--mask, or a dataset with masks",
        loaded.path, options.data.string());
  }
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
  denoise::ValidationSet set = denoise::make_validation_set(std::move(dataset), wanted,
                                                            {.info = trained,
                                                             .path = loaded.path,
                                                             .asked = "--data",
                                                             .labelled = nn::is_class_conditional(unet),
                                                             .named = names_variables(loaded.model)},
                                                            unet, world);
  set.subtract(loaded.model.mean);
  nn::UnitExecutor executor;
  table.losses = set.grid_losses(*loaded.model.unet, executor, options.levels, progress);
  set.close();
  return table;
}

Result loss_result(const LossSide& a, const LossSide& b, const LossOptions& options) {
  expect_same_images(a, b);
  const LossModel& model = a.models.front();
  Result result{
      .kind = ResultKind::loss, .data = options.data, .samples = {}, .count = a.losses.front().losses.size(0)};
  for (const LossModel& one : a.models) result.samples.emplace_back(one.path);
  for (const LossModel& one : b.models) result.others.emplace_back(one.path);
  result.settings = {{"levels", options.levels},
                     {"seed", options.seed},
                     {"loss", meaning_of(model)},
                     {"weights", model.model.description}};
  if (!b.models.empty()) result.settings["against_weights"] = b.models.front().model.description;
  const std::vector<std::vector<Column>> columns = columns_of(a, b);
  std::vector<std::vector<RowName>> names;
  for (const std::vector<Column>& of_model : columns) {
    names.emplace_back();
    for (const Column& column : of_model) names.back().push_back(row_name(metric_of(column)));
  }
  for (const std::vector<std::size_t>& places : same_rows(names)) {
    const Column& column = columns.front()[places.front()];
    const std::array<Side, 2> sides = sides_of(columns, places, a.models.size());
    result.metrics.push_back(metric_of(column, combine(std::span(sides).first(1), /*same_units=*/true, result.count)));
    if (b.models.empty()) continue;
    Comparison comparison =
        compare(sides[0].value(), -sides[1].value(), combine(sides, /*same_units=*/true, result.count));
    comparison.metric = column.name;
    comparison.variable = column.variable;
    comparison.level = result.metrics.back().level_text();
    result.comparisons.push_back(std::move(comparison));
  }
  decide(result.comparisons);
  return result;
}

}  // namespace ddpm::eval
