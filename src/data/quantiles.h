// Quantile maps: from values to straight lines between recorded quantiles.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "data/transform.h"

namespace ddpm::data {

/// A map has as many quantiles, from the least value to the greatest, evenly spaced in probability.
inline constexpr std::size_t kQuantiles = 129;

/// Quantiles p = 0, 1/128, ... 1 of the values, with straight lines between their order statistics. `values` are
/// sorted by it.
std::vector<double> quantiles_of(std::vector<float>& values);

/// The map that takes quantile p to the normal distribution's (the least and the greatest to those of 1/256 and
/// 255/256), or, `uniform`, to 2 p - 1. Equal quantiles, as of a variable that is often 0, become one point, at the
/// mean of what they would become. Of one value only: the map x - value.
Transform quantile_map(const std::vector<double>& quantiles, bool uniform);

}  // namespace ddpm::data
