// The configuration of a run that trains a model of the caller's own: the keys of `ddpm train` that are not about
// images, UNets and diffusion. Users set them in TOML and on the command line, programs set their own defaults first.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "comm/communicator.h"
#include "config/schema.h"
#include "observe/logging_config.h"
#include "run/config.h"

namespace ddpm::train {

struct TrainerConfig : run::CommonConfig {
  int64_t steps = 1000;  ///< train.steps: optimizer steps of the whole run
  observe::LoggingConfig logging;
};

/// A TrainerConfig with its table of keys. The table points into the values, so it stays where it was made.
class TrainerConfiguration {
 public:
  TrainerConfiguration();
  TrainerConfiguration(const TrainerConfiguration&) = delete;
  TrainerConfiguration& operator=(const TrainerConfiguration&) = delete;

  /// To be set before load(): the program's own defaults.
  [[nodiscard]] TrainerConfig& values() { return values_; }
  [[nodiscard]] const TrainerConfig& values() const { return values_; }
  [[nodiscard]] const config::Schema& schema() const { return schema_; }

  /// `arguments`: [FILE.toml ...] [--section.key VALUE ...], the later ones winning; then validates. Throws
  /// ConfigError, on all ranks of `world` together. With --help among them, rank 0 prints the keys and their defaults,
  /// and all throw HelpGiven. Collective.
  void load(std::span<const std::string> arguments, comm::Communicator& world);

 private:
  void apply(std::span<const std::string> arguments);
  void validate() const;

  TrainerConfig values_;
  config::Schema schema_;
};

}  // namespace ddpm::train
