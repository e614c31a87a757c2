// The sections of the configuration that the training of any model has: the run itself, its batches, and how it is
// trained, saved and watched over.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "checkpoint/config.h"
#include "config/schema.h"
#include "device/device_choice.h"
#include "engine/limits.h"
#include "optim/adamw.h"
#include "optim/ema.h"
#include "optim/loss_scaler.h"
#include "optim/lr_schedule.h"
#include "parallel/config.h"
#include "run/fault.h"

namespace ddpm::run {

/// Permissions that new files lack, in the octal digits of the shell; `user`: as the process was started with.
enum class Umask : uint8_t { u077, u027, u022, u007, u002, user };
constexpr auto names_of(Umask /*type*/) {
  return std::to_array<std::string_view>({"077", "027", "022", "007", "002", "user"});
}

/// [run]
struct RunConfig {
  std::string directory;
  Umask umask = Umask::u077;
  int64_t seed = 0;
  device::DeviceChoice device = device::DeviceChoice::automatic;
  int64_t threads_per_rank = 0;
  bool reproducible = false;
};

/// [batch]
struct BatchConfig {
  int64_t global_size = 16;
  int64_t micro_size = 16;
};

/// The sections that every run has, whatever model it trains.
struct CommonConfig {
  RunConfig run;
  BatchConfig batch;
  optim::OptimizerConfig optimizer;
  optim::LrScheduleConfig lr_schedule;
  optim::EmaConfig ema;
  optim::PrecisionConfig precision;
  parallel::ParallelConfig parallel;
  checkpoint::CheckpointConfig checkpoint;
  FaultConfig fault;
};
/// Declares train.steps in the section, which is of a run of any model; `instead_of` as in config::KeyOptions.
template <typename Steps>
void describe_steps(config::Section& section, Steps& steps, const std::string& instead_of = {}) {
  section.key("steps", steps, "Optimizer steps of the whole run; it may grow on resume.",
              {.min = 1, .max = engine::kMaxSteps, .instead_of = instead_of});
}
/// Sections `run` and `batch`.
void describe_run_and_batch(config::Schema& schema, CommonConfig& c);
/// The other sections.
void describe_training(config::Schema& schema, CommonConfig& c);
/// Throws base::ConfigError for values that are impossible.
void validate(const CommonConfig& c);

}  // namespace ddpm::run
