// The whole configuration of a run: every component's struct, the sections that only training has, and how they are
// resolved from defaults, a file, a model's config.json and the command line.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file_system.h"
#include "config/resolve.h"
#include "config/schema.h"
#include "data/config.h"
#include "denoise/load_model.h"
#include "denoise/model_source.h"
#include "diffusion/config.h"
#include "diffusion/sampler.h"
#include "engine/limits.h"
#include "interop/card_config.h"
#include "nn/config.h"
#include "observe/logging_config.h"
#include "run/config.h"

namespace ddpm::train {

/// [train]: one of the two.
struct DurationConfig {
  std::optional<int64_t> steps;
  std::optional<double> epochs;

  /// Optimizer steps of the run: `steps`, or ceil(epochs · images / global_size). Throws base::ConfigError when those
  /// are too many to count.
  [[nodiscard]] int64_t total_steps(int64_t images, int64_t global_size) const;
};

/// [validation]
struct ValidationConfig {
  int64_t every_steps = 0;
  int64_t images = 0;
  int64_t levels = 0;
};

/// [sample]
struct SampleConfig {
  int64_t every_steps = 0;
  int64_t count = 16;
  std::optional<diffusion::SamplerType> scheduler;
  std::optional<int64_t> steps;

  /// The sampler for models of `scheduler`, with what is not set as `ddpm sample` has it.
  [[nodiscard]] diffusion::SamplerOptions sampler(const diffusion::SchedulerConfig& scheduler) const;
  /// Throws base::ConfigError for one that does not fit.
  [[nodiscard]] std::unique_ptr<diffusion::Sampler> make(const diffusion::SchedulerConfig& scheduler) const;
};

/// [early_stopping]
struct EarlyStoppingConfig {
  int64_t patience = 0;
  double min_delta = 0.0;
};

struct Config : run::CommonConfig {
  data::DataConfig data;
  denoise::ModelSource model_source;
  nn::UNet2DConfig model;
  diffusion::DiffusionConfig diffusion;
  DurationConfig train;
  ValidationConfig validation;
  EarlyStoppingConfig early_stopping;
  SampleConfig sample;
  interop::CardConfig card;
  observe::LoggingConfig logging;
};

/// The models that a run writes at its end: RUN/model, and RUN/model-best where it validates.
int64_t finished_models(const Config& config);

/// A Config with its table of keys. The table points into the values, so it stays where it was made.
class Configuration {
 public:
  /// The defaults.
  Configuration();
  Configuration(const Configuration&) = delete;
  Configuration& operator=(const Configuration&) = delete;

  /// Applies, in this order: the model that model.config names, or model.pretrained if that is not set, the scheduler
  /// of the latter, the TOML files, of which later ones win, and "--section.key VALUE" overrides; then validates.
  /// Throws base::ConfigError, or base::OutputError for what is wrong with the pretrained folder.
  /// Runs are looked for in `files`.
  void load(const base::FileSystem& files, std::span<const std::string> paths, std::span<const std::string> overrides);
  /// Does the same with TOML text in place of TOML files; `origin` names it in errors.
  void load_text(const base::FileSystem& files, std::string_view text, const std::string& origin);

  /// diffusion.clip_sample, whose default follows from the training set: see denoise/image_values.h.
  void set_clip_sample(bool clips) { values_.diffusion.scheduler.clip_sample = clips; }

  [[nodiscard]] const Config& values() const { return values_; }
  [[nodiscard]] const config::Schema& schema() const { return schema_; }

 private:
  /// A parsed file and its name.
  struct Layer {
    std::string origin;
    config::Table table;
  };
  void load(const base::FileSystem& files, const std::vector<Layer>& layers, std::span<const std::string> overrides);
  void apply(const std::vector<Layer>& layers, std::span<const std::string> overrides);
  void validate(const base::FileSystem& files) const;

  // Where the model comes from: train/config_source.cpp.
  /// Sets the keys of [model] and [diffusion] that the files of model.config, model.pretrained and model.lora_adapters
  /// give. Returns what the latter are.
  std::optional<nn::LoraConfig> apply_model_source(const base::FileSystem& files);
  /// Does so where one of them is gone and the run in run.directory began from the same: it needs none of them any
  /// more, but for the weights beside adapters, and its config.toml holds all keys. Returns whether that is so.
  bool apply_begun_run();
  /// Refuses keys that ask for other adapters than those that model.lora_adapters has.
  void expect_adapters(const nn::LoraConfig& stored) const;
  /// Refuses keys that do not go together.
  void validate_source(const base::FileSystem& files) const;

  Config values_;
  config::Schema schema_;
};

/// Warns of keys by themselves that do nothing, or less than whoever set them may think.
void warn_of_keys(const Config& config, const base::Logger& log);

/// Reads RUN/config.toml of a run that was trained here. A fault in it lies in the run's folder, not in what the user
/// configured, so both functions throw OutputError (exit code 4).
void read_run_configuration(const base::Path& file, Configuration& configuration);
denoise::RunModel read_run_model(const base::Path& file);

}  // namespace ddpm::train
