#include "train/config.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <utility>

#include <fmt/ranges.h>

#include "base/error.h"
#include "denoise/null_class.h"
#include "denoise/patch.h"
#include "denoise/timestep_fit.h"
#include "diffusion/loss.h"
#include "diffusion/samplers.h"
#include "diffusion/scheduler_json.h"
#include "diffusion/validate.h"
#include "nn/validate.h"

namespace ddpm::train {
namespace {

using config::Identity;

constexpr double kMaxEpochs = 1e6;
constexpr double kMaxLevels = 100;
constexpr double kMaxSamples = 1024;

void describe(config::Section& section, DurationConfig& c) {
  run::describe_steps(section, c.steps, "epochs");
  section.key("epochs", c.epochs, "Instead of steps: passes over the training set.",
              {.min = 0.0, .max = kMaxEpochs, .above_min = true, .instead_of = "steps"});
}

void describe(config::Section& section, ValidationConfig& c) {
  section
      .key("every_steps", c.every_steps, "Optimizer steps between validations; there is one more at the end. 0: none.",
           {.min = 0})
      .key("images", c.images, "Number of images of data.validation to use, from its first. 0: all.", {.min = 0})
      .key("levels", c.levels,
           "Fixed levels of noise, evenly over those of training, at each of which all images are validated once more; "
           "0: none.",
           {.min = 0, .max = kMaxLevels});
}

void describe(config::Section& section, SampleConfig& c) {
  section
      .key("every_steps", c.every_steps,
           "Optimizer steps between grids of samples in RUN/samples; there is one more at the end. 0: none.",
           {.min = 0})
      .key("count", c.count, "Samples of a grid: the same noise each time, of classes one after the other.",
           {.min = 1, .max = kMaxSamples})
      .key("scheduler", c.scheduler, "Sampler, as for ddpm sample --scheduler.",
           {.default_text = "that of `ddpm sample`"})
      .key("steps", c.steps, "Steps of the sampler.",
           {.min = 1, .max = diffusion::kMostTimesteps, .default_text = "as `ddpm sample` takes"});
}

void describe(config::Section& section, EarlyStoppingConfig& c) {
  section
      .key("patience", c.patience,
           "Number of validations in a row without an improvement after which training ends. 0: never.", {.min = 0})
      .key("min_delta", c.min_delta,
           "A validation loss is an improvement when it lies below that of the last improvement by more than this.",
           {.min = 0.0});
}

template <typename... Parts>
void declare(config::Schema& schema, const char* name, const char* doc, Identity identity, Parts&... parts) {
  config::Section section = schema.section(name, doc, identity);
  (describe(section, parts), ...);
}

config::Schema make_schema(Config& c) {
  config::Schema schema;
  run::describe_run_and_batch(schema, c);
  declare(schema, "data", "Where the images come from and in which order they are read.", Identity::fixed, c.data);
  declare(schema, "model", "The UNet, with the keys of diffusers' UNet2DModel.", Identity::fixed, c.model_source,
          c.model, c.model.lora);
  declare(schema, "diffusion",
          "How noise is mixed with images and what is learned of it, with the keys of diffusers' schedulers.",
          Identity::fixed, c.diffusion);
  declare(schema, "train", "How long to train: steps or epochs.", Identity::may_change, c.train);
  run::describe_training(schema, c);
  declare(schema, "validation", "The mean loss over data.validation, of the weights that RUN/model would get.",
          Identity::may_change, c.validation);
  declare(schema, "early_stopping", "Ending a run whose validation loss no longer falls.", Identity::may_change,
          c.early_stopping);
  declare(schema, "sample", "Pictures during training, of the weights that RUN/model would get.", Identity::may_change,
          c.sample);
  declare(schema, "card", "What the model card, RUN/model/README.md, says of the model.", Identity::may_change, c.card);
  observe::declare_logging(schema, c.logging);
  return schema;
}

/// nn supports them, but no dataset holds them.
void refuse_ready_made_embeddings(const nn::UNet2DConfig& model) {
  if (model.class_embed_type != nn::ClassEmbedding::identity) return;
  throw base::ConfigError(
      "model.class_embed_type = \"identity\" takes a ready-made embedding per image, but datasets hold integer labels; "
      "wanted: model.num_class_embeds, or class_embed_type = \"timestep\"");
}

void validate_patch(const Config& c) {
  const auto axes = static_cast<std::size_t>(c.model.dimensions);
  if (c.data.patch.empty() || c.data.patch.size() == axes) return;
  throw base::ConfigError("data.patch = [{}]: the model has model.dimensions = {}; wanted: {}",
                          fmt::join(c.data.patch, ", "), axes,
                          axes == 2 ? "[height, width]" : "[depth, height, width]");
}

/// Images are moved about only where the model takes the moved ones for as good.
void validate_augmentation(const Config& c) {
  const std::vector<bool> periodic = denoise::periodic_axes(c.model, static_cast<std::size_t>(c.model.dimensions));
  const std::string padding = fmt::format("model.padding = [{}]", fmt::join(c.model.padding, ", "));
  if (c.data.periodic_shift && std::ranges::count(periodic, true) == 0) {
    throw base::ConfigError("data.periodic_shift = true, but {}; wanted: \"periodic\" along one axis at least",
                            padding);
  }
  if (c.data.quarter_turns && periodic.back() != periodic[periodic.size() - 2]) {
    throw base::ConfigError("data.quarter_turns = true, but {}; wanted: the same along height and width", padding);
  }
}

/// A hub refuses a card whose base_model is not the name of a model.
void validate_card(const Config& c) {
  const std::string& name = c.card.base_model;
  if (name.empty()) return;
  const auto slashes = std::ranges::count(name, '/');
  const bool plain = std::ranges::all_of(
      name, [](unsigned char x) { return std::isalnum(x) != 0 || x == '/' || x == '-' || x == '_' || x == '.'; });
  if (!plain || slashes != 1 || name.starts_with('/') || name.ends_with('/')) {
    throw base::ConfigError("card.base_model = \"{}\"; wanted: OWNER/NAME, of letters, digits, '-', '_' and '.'", name);
  }
  if (!c.model_source.pretrained) {
    throw base::ConfigError(
        "card.base_model = \"{}\" is set, but model.pretrained is not; wanted: the model that training starts from",
        name);
  }
}

/// What the diffusion asks of the network.
void validate_diffusion_of_model(const Config& c) {
  if (c.diffusion.class_dropout > 0.0 && !denoise::has_class_table(c.model)) {
    throw base::ConfigError(
        "diffusion.class_dropout = {} replaces labels by the last row of a class table, but the model has none; "
        "wanted: model.num_class_embeds, one more than there are classes",
        c.diffusion.class_dropout);
  }
  const std::string problem = denoise::training_problem(c.model, c.diffusion.scheduler);
  if (!problem.empty()) throw base::ConfigError("{}", problem);
}

void validate_validation(const Config& c) {
  if (c.validation.every_steps > 0 && !c.data.validation) {
    throw base::ConfigError(
        "validation.every_steps = {}, but data.validation is not set: a dataset folder or one .h5 file is wanted",
        c.validation.every_steps);
  }
  if (c.early_stopping.patience > 0 && c.validation.every_steps == 0) {
    throw base::ConfigError("early_stopping.patience = {} needs validation: set validation.every_steps",
                            c.early_stopping.patience);
  }
  const int64_t sync_every = c.parallel.sync_every;
  if (c.early_stopping.patience > 0 && sync_every > 0 && c.validation.every_steps % sync_every != 0) {
    throw base::ConfigError(
        "validation.every_steps = {} with early_stopping.patience = {} may end the run between two outer steps "
        "(parallel.sync_every = {}), and the last one would be missing; wanted: a multiple of {}",
        c.validation.every_steps, c.early_stopping.patience, sync_every, sync_every);
  }
  if (c.validation.levels > 1 && c.diffusion.scheduler.formulation == diffusion::Formulation::regression) {
    throw base::ConfigError("validation.levels = {}: a regression has one level of noise; wanted: 0",
                            c.validation.levels);
  }
}

void validate_sample(const Config& c) {
  if (c.sample.every_steps == 0) return;
  const diffusion::SchedulerConfig& scheduler = c.diffusion.scheduler;
  const diffusion::SamplerOptions options = c.sample.sampler(scheduler);
  std::string problem;
  try {
    problem = denoise::visited_problem(c.model, c.sample.make(scheduler)->timesteps());
  } catch (const base::ConfigError& error) {
    problem = error.what();
  }
  if (problem.empty()) return;
  throw base::ConfigError("sample.scheduler = \"{}\" with sample.steps = {}: {}", base::name_of(options.scheduler),
                          options.steps, problem);
}

}  // namespace

int64_t DurationConfig::total_steps(int64_t images, int64_t global_size) const {
  if (steps) return *steps;
  // 1.1 passes over 50,000 images in batches of 10 are 5,500 steps, although 1.1 is rounded up.
  constexpr double kRounding = 1e-12;
  const double exact = *epochs * static_cast<double>(images) / static_cast<double>(global_size);
  const double wanted = std::ceil(exact * (1.0 - kRounding));
  if (!(wanted <= static_cast<double>(engine::kMaxSteps))) {
    throw base::ConfigError("train.epochs = {}: {} images in batches of {} make {} steps; wanted: at most {}", *epochs,
                            images, global_size, wanted, engine::kMaxSteps);
  }
  return static_cast<int64_t>(wanted);
}

int64_t finished_models(const Config& config) { return config.validation.every_steps > 0 ? 2 : 1; }

Configuration::Configuration() : schema_(make_schema(values_)) {}

void Configuration::load(const base::FileSystem& files, std::span<const std::string> paths,
                         std::span<const std::string> overrides) {
  std::vector<Layer> layers;
  for (const std::string& path : paths) layers.push_back({path, config::read_toml(path)});
  load(files, layers, overrides);
}

void Configuration::load_text(const base::FileSystem& files, std::string_view text, const std::string& origin) {
  load(files, {{origin, config::parse_toml(text, origin)}}, {});
}

void Configuration::load(const base::FileSystem& files, const std::vector<Layer>& layers,
                         std::span<const std::string> overrides) {
  // The model's own config.json comes below the files and the command line, which therefore are applied again on top.
  apply(layers, overrides);
  if (values_.model_source.names_files()) {
    const std::optional<nn::LoraConfig> adapters = apply_model_source(files);
    const diffusion::SchedulerConfig of_model = values_.diffusion.scheduler;
    apply(layers, overrides);
    if (const auto wanted = values_.diffusion.scheduler.formulation; wanted != of_model.formulation) {
      values_.diffusion.scheduler = diffusion::keys_shared_with(of_model, wanted);
      apply(layers, overrides);
    }
    if (adapters) expect_adapters(*adapters);
  }
  validate(files);
}

void Configuration::apply(const std::vector<Layer>& layers, std::span<const std::string> overrides) {
  for (const Layer& layer : layers) config::apply(schema_, layer.table, layer.origin);
  config::apply_overrides(schema_, overrides);
}

void Configuration::validate(const base::FileSystem& files) const {
  const Config& c = values_;
  run::validate(c);
  if (c.train.steps.has_value() == c.train.epochs.has_value()) {
    throw base::ConfigError("set exactly one of train.steps and train.epochs; {} set",
                            c.train.steps ? "both are" : "neither is");
  }
  data::train_sources(c.data);
  data::validate(c.data);
  nn::validate(c.model);
  validate_source(files);
  refuse_ready_made_embeddings(c.model);
  diffusion::validate(c.diffusion);
  validate_card(c);
  validate_patch(c);
  validate_augmentation(c);
  validate_diffusion_of_model(c);
  validate_validation(c);
  validate_sample(c);
}

diffusion::SamplerOptions SampleConfig::sampler(const diffusion::SchedulerConfig& config) const {
  const diffusion::SamplerType type = scheduler.value_or(diffusion::default_sampler(config.formulation));
  return {.scheduler = type, .steps = steps ? *steps : diffusion::default_steps(type, config)};
}

/// By way of the file, as `ddpm sample` makes it.
std::unique_ptr<diffusion::Sampler> SampleConfig::make(const diffusion::SchedulerConfig& config) const {
  const diffusion::SamplerOptions options = sampler(config);
  return diffusion::make_sampler(
      diffusion::read_scheduler(diffusion::write_scheduler(config), options.scheduler, "diffusion"), options);
}

void warn_of_keys(const Config& config, const base::Logger& log) {
  if (config.data.validation && config.validation.every_steps == 0) {
    log.warn("data.validation is set, but validation.every_steps = 0: the validation set is not used");
  }
  if (config.ema.enabled && !config.ema.relative_lengths.empty() && config.checkpoint.keep_every == 0) {
    log.warn(
        "ema.relative_lengths is set, but checkpoint.keep_every = 0: the newest {} checkpoints are too few for "
        "averages of other lengths; wanted: checkpoint.keep_every, so that some 24 are kept",
        config.checkpoint.keep_latest);
  }
  if (config.parallel.sync_every == 0 && config.parallel.outer != parallel::OuterConfig{}) {
    log.warn(
        "parallel.outer_learning_rate or parallel.outer_momentum is set, but parallel.sync_every = 0: no outer "
        "steps are made");
  }
  if (diffusion::asks_noise_alone_for_noise(config.diffusion.scheduler)) {
    log.warn(
        "diffusion.prediction_type = \"epsilon\": float32 leaves no signal at the last timestep, where predicted noise "
        "says nothing about the image, so that ddpm and ddim cannot begin to draw there; wanted: v_prediction or "
        "sample, or a smaller beta_end or num_train_timesteps");
  }
  if (diffusion::leaves_out_last_timestep(config.diffusion)) {
    log.warn(
        "diffusion.snr_gamma = {}: the last timestep holds no signal, so that its loss has weight 0 and the model "
        "does not learn the step with which trailing sampling begins; wanted: diffusion.snr_gamma = 0, or a schedule "
        "that leaves some signal",
        config.diffusion.snr_gamma);
  }
}

void read_run_configuration(const base::Path& file, Configuration& configuration) {
  try {
    config::apply(configuration.schema(), config::read_toml(file), file.string());
  } catch (const base::ConfigError& error) {
    throw base::OutputError("{}", error.what());
  }
}

denoise::RunModel read_run_model(const base::Path& file) {
  Configuration configuration;
  read_run_configuration(file, configuration);
  const Config& config = configuration.values();
  try {
    nn::validate(config.model);
    diffusion::validate(config.diffusion);
  } catch (const base::ConfigError& error) {
    throw base::OutputError("{}: {}", file.string(), error.what());
  }
  return {.unet = config.model,
          .scheduler = config.diffusion.scheduler,
          .class_dropout = config.diffusion.class_dropout,
          .condition_dropout = config.diffusion.condition_dropout,
          .averages = config.ema.count(),
          .power_averages = run::PowerAverages::of(config.ema),
          .has_mean = config.diffusion.mean_model.has_value(),
          .allow_tf32 = config.precision.allow_tf32};
}

}  // namespace ddpm::train
