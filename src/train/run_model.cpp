#include "train/run_model.h"

#include "base/error.h"
#include "nn/validate.h"

namespace ddpm::train {

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
  return {
      .unet = config.model,
      .scheduler = config.diffusion.scheduler,
      .class_dropout = config.diffusion.class_dropout,
      .condition_dropout = config.diffusion.condition_dropout,
      .averages = config.ema.count(),
      .power_averages = {.relative_lengths = config.ema.enabled ? config.ema.relative_lengths : std::vector<double>{},
                         .first = config.ema.max_decay.size()},
      .has_mean = config.diffusion.mean_model.has_value()};
}

}  // namespace ddpm::train
