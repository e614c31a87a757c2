// How stored values become what the model sees: maps of one number to one number, each of which can be inverted.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/dtype.h"

namespace ddpm::data {

/// A map x · scale + offset.
struct Normalization {
  double scale = 1.0;
  double offset = 0.0;
  static Normalization of(base::DType dtype);  ///< the default of a stored type: float32 is left as it is
  friend bool operator==(const Normalization&, const Normalization&) = default;
};

/// The kinds of maps, and the two numbers of each (see TransformNumbers).
enum class TransformType : uint8_t {
  affine,       ///< x · scale + offset; scale 1 and offset 0 change nothing
  standardize,  ///< (x - mean) / std
  minmax,       ///< from [min, max] to [-1, 1]
  log1p,        ///< ln(1 + x) · scale + offset, of x > -1
};
constexpr auto names_of(TransformType /*type*/) {
  return std::to_array<std::string_view>({"affine", "standardize", "minmax", "log1p"});
}

/// The keys of a transform's two numbers in JSON.
struct TransformNumbers {
  const char* first;
  const char* second;
};
TransformNumbers numbers_of(TransformType type);

/// One variable's map.
struct Transform {
  TransformType type = TransformType::affine;
  double first = 1.0;   ///< scale, mean or min
  double second = 0.0;  ///< offset, std or max

  Transform() = default;
  Transform(TransformType kind, double a, double b) : type(kind), first(a), second(b) {}
  Transform(const Normalization& map) : first(map.scale), second(map.offset) {}  // NOLINT(google-explicit-constructor)

  /// Whether ln(1 + x) is taken before map().
  [[nodiscard]] bool takes_logarithm() const { return type == TransformType::log1p; }
  /// The affine map, of x or of ln(1 + x), that the transform is.
  [[nodiscard]] Normalization map() const;
  /// What is wrong with the numbers, as the end of a sentence; "" when the map can be inverted.
  [[nodiscard]] std::string problem() const;
  friend bool operator==(const Transform&, const Transform&) = default;
};

}  // namespace ddpm::data
