#include "data/transform.h"

#include <cfloat>
#include <cmath>

#include <fmt/format.h>

#include "base/error.h"

namespace ddpm::data {
namespace {

bool fits_float(double value) { return std::abs(value) <= FLT_MAX; }

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
  }
  throw base::InternalError("transform type {}", static_cast<int>(type));
}

std::string Transform::problem() const {
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
