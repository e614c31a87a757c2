#include "data/transform.h"

#include <cfloat>
#include <cmath>

#include <fmt/ranges.h>

#include "base/error.h"
#include "base/named.h"
#include "base/product.h"

namespace ddpm::data {
namespace {

bool fits_float(double value) { return std::abs(value) <= FLT_MAX; }

/// Float32 has to tell the points apart, since it is in float32 that values are mapped.
bool grows(const std::vector<double>& numbers) {
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    if (!fits_float(numbers[i])) return false;
    if (i > 0 && !(static_cast<float>(numbers[i]) > static_cast<float>(numbers[i - 1]))) return false;
  }
  return true;
}

std::string problem_of_points(const Transform& map) {
  if (map.from.size() != map.to.size() || map.from.size() < 2 || map.from.size() > kMostPoints) {
    return fmt::format("\"from\" has {} numbers and \"to\" {}, 2 to {} of each are wanted", map.from.size(),
                       map.to.size(), kMostPoints);
  }
  if (grows(map.from) && grows(map.to)) return "";
  return fmt::format("\"{}\" does not grow from number to number as float32 holds them",
                     grows(map.from) ? "to" : "from");
}

std::string problem_of_grid(const PointScales& grid) {
  const int64_t points = grid.points();
  if (points < 1 || points > kMostGridPoints) {
    return fmt::format("its grid has {} points, 1 to {} are wanted", points, kMostGridPoints);
  }
  if (std::ssize(grid.mean) != points || std::ssize(grid.std) != points) {
    return fmt::format("\"mean\" has {} numbers and \"std\" {}, {} of each are wanted", grid.mean.size(),
                       grid.std.size(), points);
  }
  for (std::size_t p = 0; p < grid.mean.size(); ++p) {
    if (!std::isfinite(grid.mean[p])) {
      return fmt::format("\"mean\" is {} at point {}, a finite number is wanted", grid.mean[p], p);
    }
    const bool divides = grid.std[p] >= FLT_MIN && std::isfinite(grid.std[p]);
    if (divides || grid.std[p] == 0.0F) continue;
    return fmt::format("\"std\" is {} at point {}, a positive number is wanted, or 0 where all values are the same",
                       grid.std[p], p);
  }
  return "";
}

}  // namespace

int64_t PointScales::points() const { return base::product_of(sides); }

Normalization Normalization::of(base::DType dtype) {
  return dtype == base::DType::u8 ? Normalization{.scale = 1.0 / 127.5, .offset = -1.0} : Normalization{};
}

TransformNumbers numbers_of(TransformType type) {
  switch (type) {
    case TransformType::affine:
    case TransformType::log1p:
      return {"scale", "offset"};
    case TransformType::standardize:
    case TransformType::grid:
      return {"mean", "std"};
    case TransformType::minmax:
      return {"min", "max"};
    case TransformType::quantile:
      return {"from", "to"};
  }
  throw base::InternalError("transform type {}", static_cast<int>(type));
}

Normalization Transform::map() const {
  switch (type) {
    case TransformType::affine:
    case TransformType::log1p:
      return {.scale = first, .offset = second};
    case TransformType::standardize:
      return {.scale = 1.0 / second, .offset = -first / second};
    case TransformType::minmax:
      return {.scale = 2.0 / (second - first), .offset = -(second + first) / (second - first)};
    case TransformType::quantile:
    case TransformType::grid:
      return {};
  }
  throw base::InternalError("transform type {}", static_cast<int>(type));
}

bool operator==(const Transform& a, const Transform& b) {
  const bool same_grid = a.grid == b.grid || (a.grid && b.grid && *a.grid == *b.grid);
  return same_grid && a.type == b.type && a.first == b.first && a.second == b.second && a.from == b.from &&
         a.to == b.to;
}

std::string Transform::text() const {
  if (has_grid()) return fmt::format("{} ({} points)", base::name_of(type), fmt::join(grid->sides, " x "));
  if (has_points())
    return fmt::format("{}({} points, {:.9g} to {:.9g})", base::name_of(type), from.size(), from.front(), from.back());
  return fmt::format("{}({:.9g}, {:.9g})", base::name_of(type), first, second);
}

std::string Transform::problem() const {
  if (has_points()) return problem_of_points(*this);
  if (has_grid()) return problem_of_grid(*grid);
  if (type == TransformType::standardize && !(second > 0.0)) {
    return fmt::format("\"std\" is {}, a positive number is wanted", second);
  }
  if (type == TransformType::minmax && !(second > first)) {
    return fmt::format("\"max\" is {}, more than the \"min\" of {} is wanted", second, first);
  }
  const Normalization affine = map();
  if (affine.scale == 0.0) return "\"scale\" is 0, images would vanish";
  if (!fits_float(affine.scale) || !fits_float(affine.offset) || std::abs(affine.scale) < FLT_MIN) {
    return fmt::format("it makes the map x * {} + {}, whose numbers float32 cannot hold", affine.scale, affine.offset);
  }
  return "";
}

}  // namespace ddpm::data
