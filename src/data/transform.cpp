#include "data/transform.h"

#include <cfloat>
#include <cmath>

#include <fmt/format.h>

#include "base/error.h"
#include "base/named.h"

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

}  // namespace

Normalization Normalization::of(base::DType dtype) {
  return dtype == base::DType::u8 ? Normalization{.scale = 1.0 / 127.5, .offset = -1.0} : Normalization{};
}

TransformNumbers numbers_of(TransformType type) {
  switch (type) {
    case TransformType::affine:
    case TransformType::log1p:
      return {"scale", "offset"};
    case TransformType::standardize:
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
      return {};
  }
  throw base::InternalError("transform type {}", static_cast<int>(type));
}

std::string Transform::text() const {
  if (has_points())
    return fmt::format("{}({} points, {:.9g} to {:.9g})", base::name_of(type), from.size(), from.front(), from.back());
  return fmt::format("{}({:.9g}, {:.9g})", base::name_of(type), first, second);
}

std::string Transform::problem() const {
  if (has_points()) return problem_of_points(*this);
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
