// How stored values become what the model sees: maps of one number to one number, each of which can be inverted.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/dtype.h"

namespace ddpm::data {

/// A map x · scale + offset.
struct Normalization {
  double scale = 1.0;
  double offset = 0.0;
  static Normalization of(base::DType dtype);  ///< the default of a stored type: float32 is left as it is
  friend bool operator==(const Normalization&, const Normalization&) = default;
};

/// The kinds of maps, and the two numbers of each but the last (see TransformNumbers).
enum class TransformType : uint8_t {
  affine,       ///< x · scale + offset; scale 1 and offset 0 change nothing
  standardize,  ///< (x - mean) / std
  minmax,       ///< from [min, max] to [-1, 1]
  log1p,        ///< ln(1 + x) · scale + offset, of x > -1
  quantile,     ///< straight lines between points (from, to), both of which grow; the outer lines go on
};
constexpr auto names_of(TransformType /*type*/) {
  return std::to_array<std::string_view>({"affine", "standardize", "minmax", "log1p", "quantile"});
}

/// The keys of a transform's two numbers in JSON; a quantile map has lists, "from" and "to", in their place.
struct TransformNumbers {
  const char* first;
  const char* second;
};
TransformNumbers numbers_of(TransformType type);

/// A quantile map has as many points at most.
inline constexpr std::size_t kMostPoints = 1025;

/// One variable's map.
struct Transform {
  TransformType type = TransformType::affine;
  double first = 1.0;             ///< scale, mean or min
  double second = 0.0;            ///< offset, std or max
  std::vector<double> from = {};  ///< of a quantile map: stored values,
  std::vector<double> to = {};    ///< and what the model sees of them

  Transform() = default;
  Transform(TransformType kind, double a, double b) : type(kind), first(a), second(b) {}
  /// A quantile map.
  Transform(std::vector<double> stored, std::vector<double> seen)
      : type(TransformType::quantile), from(std::move(stored)), to(std::move(seen)) {}
  Transform(const Normalization& map) : first(map.scale), second(map.offset) {}  // NOLINT(google-explicit-constructor)

  /// Whether ln(1 + x) is taken before map().
  [[nodiscard]] bool takes_logarithm() const { return type == TransformType::log1p; }
  /// Whether x is mapped by points instead of map().
  [[nodiscard]] bool has_points() const { return type == TransformType::quantile; }
  /// Whether the transform is map() alone.
  [[nodiscard]] bool is_affine() const { return !takes_logarithm() && !has_points(); }
  /// The affine map, of x or of ln(1 + x), that the transform is; with points the one that changes nothing.
  [[nodiscard]] Normalization map() const;
  /// What is wrong with the numbers, as the end of a sentence; "" when the map can be inverted.
  [[nodiscard]] std::string problem() const;
  /// "standardize(281, 21.3)", for messages.
  [[nodiscard]] std::string text() const;
  friend bool operator==(const Transform&, const Transform&) = default;
};

}  // namespace ddpm::data
