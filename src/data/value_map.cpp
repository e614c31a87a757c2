#include "data/value_map.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace ddpm::data {
namespace {

/// Straight lines between the points; the outer ones go on.
double along_points(const std::vector<double>& from, const std::vector<double>& to, double x) {
  const auto above = std::lower_bound(from.begin() + 1, from.end() - 1, x);
  const auto line = static_cast<std::size_t>(above - from.begin()) - 1;
  const double slope = (to[line + 1] - to[line]) / (from[line + 1] - from[line]);
  return to[line] + (x - from[line]) * slope;
}

}  // namespace

ValueMap::ValueMap(const Transform& transform)
    : transform_(transform), map_(transform.map()), logarithm_(transform.takes_logarithm()) {}

double ValueMap::seen(double stored, std::size_t point) const {
  if (transform_.has_grid()) return transform_.grid->seen(point, stored);
  if (transform_.has_points()) return along_points(transform_.from, transform_.to, stored);
  return (logarithm_ ? std::log1p(stored) : stored) * map_.scale + map_.offset;
}

double ValueMap::stored(double seen, std::size_t point) const {
  if (transform_.has_grid()) {
    const PointScales& grid = *transform_.grid;
    return seen * static_cast<double>(grid.std[point]) + static_cast<double>(grid.mean[point]);
  }
  if (transform_.has_points()) return along_points(transform_.to, transform_.from, seen);
  const double value = (seen - map_.offset) / map_.scale;
  return logarithm_ ? std::expm1(value) : value;
}

bool ValueMap::is_identity() const { return transform_.is_affine() && map_ == Normalization{}; }

}  // namespace ddpm::data
