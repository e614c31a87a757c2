// Fixed levels of noise at which losses are compared.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "diffusion/config.h"

namespace ddpm::diffusion {

struct GridLevel {
  std::string name;       ///< "t_62" of ddpm, "sigma_0.301" of edm, "t_0.25" of flow
  double quantile = 0.5;  ///< the share of training's levels below it: for at_level()
};

/// The quantiles (2i + 1) / (2 count) for i = 0 … count - 1 of the levels that training draws, low ones first; those
/// that coincide once. A regression has one level.
std::vector<GridLevel> level_grid(const DiffusionConfig& config, int64_t count);

}  // namespace ddpm::diffusion
