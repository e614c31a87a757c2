// The scheduler's file in the folder of a model.
#pragma once

#include <cstdint>
#include <string>

namespace ddpm::diffusion {
struct SchedulerConfig;
enum class Formulation : uint8_t;
enum class PredictionType : uint8_t;
}  // namespace ddpm::diffusion

namespace ddpm::interop {

/// The file scheduler/scheduler_config.json, and what the other files say of it.
struct WrittenScheduler {
  diffusion::Formulation formulation;
  std::string class_name;  ///< name of its class in diffusers: "DDPMScheduler"
  std::string text;
  diffusion::PredictionType prediction;
  int64_t timesteps;

  /// What a model that was trained here has.
  WrittenScheduler(const diffusion::SchedulerConfig& config);  // NOLINT(google-explicit-constructor)
  /// A file that was read as `config`, and is written as it is.
  WrittenScheduler(const diffusion::SchedulerConfig& config, std::string name, std::string content);
};

}  // namespace ddpm::interop
