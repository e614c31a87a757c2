#include "diffusion/level_name.h"

#include <ATen/core/Tensor.h>
#include <fmt/format.h>

#include "base/error.h"

namespace ddpm::diffusion {

std::string level_name(const DiffusionConfig& config, const TrainingNoise& noise) {
  switch (config.scheduler.formulation) {
    case Formulation::ddpm:
      return fmt::format("t {}", noise.timesteps[0].item<int64_t>());
    case Formulation::edm:
      return fmt::format("sigma {:.4g}", noise.levels[0].item<double>());
    case Formulation::flow:
      return fmt::format("t {:.4g}", noise.levels[0].item<double>());
    case Formulation::regression:
      return "no noise";
  }
  throw base::InternalError("formulation {} is not in the list", static_cast<int>(config.scheduler.formulation));
}

}  // namespace ddpm::diffusion
