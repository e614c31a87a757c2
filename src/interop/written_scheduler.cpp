#include "interop/written_scheduler.h"

#include <utility>

#include "base/json.h"
#include "diffusion/config.h"
#include "diffusion/scheduler_json.h"
#include "interop/unet_json.h"

namespace ddpm::interop {
namespace {

/// The scheduler's keys with the release whose file it is, where diffusers puts it.
base::OrderedJson scheduler_config(const diffusion::SchedulerConfig& scheduler) {
  base::OrderedJson json;
  const base::OrderedJson keys = diffusion::write_scheduler(scheduler);
  for (const auto& [key, value] : keys.items()) {
    json[key] = value;
    if (key == "_class_name") json["_diffusers_version"] = kDiffusersVersion;
  }
  return json;
}

}  // namespace

WrittenScheduler::WrittenScheduler(const diffusion::SchedulerConfig& config)
    : WrittenScheduler(config, std::string(diffusion::scheduler_class(config.formulation)),
                       scheduler_config(config).dump(2) + "\n") {}

WrittenScheduler::WrittenScheduler(const diffusion::SchedulerConfig& config, std::string name, std::string content)
    : formulation(config.formulation),
      class_name(std::move(name)),
      text(std::move(content)),
      prediction(config.prediction_type),
      timesteps(config.num_train_timesteps) {}

}  // namespace ddpm::interop
