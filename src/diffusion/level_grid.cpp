#include "diffusion/level_grid.h"

#include <utility>

#include <ATen/core/Tensor.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include "diffusion/formulation.h"

namespace ddpm::diffusion {
namespace {

std::string name_of(const DiffusionConfig& config, double quantile) {
  const TrainingNoise point = at_level(config, {.timesteps = at::zeros({1}, at::kLong)}, quantile);
  if (!point.levels.defined()) return fmt::format("t_{}", point.timesteps.item<int64_t>());
  const char* symbol = config.scheduler.formulation == Formulation::edm ? "sigma" : "t";
  return fmt::format("{}_{:.4g}", symbol, point.levels.item<double>());
}

}  // namespace

std::vector<GridLevel> level_grid(const DiffusionConfig& config, int64_t count) {
  std::vector<GridLevel> grid;
  for (int64_t i = 0; i < count; ++i) {
    const double quantile = static_cast<double>(2 * i + 1) / static_cast<double>(2 * count);
    std::string name = name_of(config, quantile);
    if (grid.empty() || grid.back().name != name) grid.push_back({std::move(name), quantile});
  }
  return grid;
}

}  // namespace ddpm::diffusion
