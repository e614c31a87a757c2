#include "interop/written_model.h"

#include "diffusion/config.h"
#include "diffusion/scheduler_json.h"
#include "interop/unet_json.h"
#include "nn/unet2d.h"

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

std::vector<NamedTensor> weights_of(const nn::UNet2D& unet) {
  std::vector<NamedTensor> weights;
  for (const nn::Parameter* parameter : unet.parameters()) weights.emplace_back(parameter->name, parameter->value);
  return weights;
}

WrittenScheduler::WrittenScheduler(const diffusion::SchedulerConfig& config)
    : formulation(config.formulation),
      class_name(diffusion::scheduler_class(config.formulation)),
      text(scheduler_config(config).dump(2) + "\n") {}

}  // namespace ddpm::interop
