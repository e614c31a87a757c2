// How stored values become what the model sees: maps of one number to one number, each of which can be inverted. A grid
// has one for each point.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
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

/// The kinds of maps, and the two numbers of each but the last two (see TransformNumbers).
enum class TransformType : uint8_t {
  affine,       ///< x · scale + offset; scale 1 and offset 0 change nothing
  standardize,  ///< (x - mean) / std
  minmax,       ///< from [min, max] to [-1, 1]
  log1p,        ///< ln(1 + x) · scale + offset, of x > -1
  quantile,     ///< straight lines between points (from, to), both of which grow; the outer lines go on
  grid,         ///< (x - mean) / std, with a mean and a deviation for each point of the field
};
constexpr auto names_of(TransformType /*type*/) {
  return std::to_array<std::string_view>({"affine", "standardize", "minmax", "log1p", "quantile", "grid"});
}

/// The keys of a transform's two numbers in JSON. A quantile map has lists, "from" and "to", in their place, and a grid
/// has arrays.
struct TransformNumbers {
  const char* first;
  const char* second;
};
TransformNumbers numbers_of(TransformType type);

/// A quantile map has as many points at most.
inline constexpr std::size_t kMostPoints = 1025;
/// The grid of one variable has as many points at most.
inline constexpr int64_t kMostGridPoints = int64_t{1} << 21;
/// All grids that are fitted to a set have as many together: 180 MB of dataset.json.
inline constexpr int64_t kMostGridPointsOfSet = int64_t{1} << 24;

/// Mean and deviation of a variable at each point of its field, in the order of stored values.
struct PointScales {
  std::vector<int64_t> sides;  ///< height and width, of volumes with the depth before
  std::vector<float> mean;
  std::vector<float> std;  ///< 0: the point holds one value, its mean, and becomes 0

  [[nodiscard]] int64_t points() const;
  /// What the model sees of the value `x` at a point.
  [[nodiscard]] double seen(std::size_t point, double x) const {
    return std[point] > 0.0F ? (x - mean[point]) / std[point] : 0.0;
  }
  friend bool operator==(const PointScales&, const PointScales&) = default;
};

/// One variable's map.
struct Transform {
  TransformType type = TransformType::affine;
  double first = 1.0;                            ///< scale, mean or min
  double second = 0.0;                           ///< offset, std or max
  std::vector<double> from = {};                 ///< for a quantile map: stored values,
  std::vector<double> to = {};                   ///< and what the model sees for them
  std::shared_ptr<const PointScales> grid = {};  ///< scales of each point of a grid; copies share it, it may be large

  Transform() = default;
  Transform(TransformType kind, double a, double b) : type(kind), first(a), second(b) {}
  /// A quantile map.
  Transform(std::vector<double> stored, std::vector<double> seen)
      : type(TransformType::quantile), from(std::move(stored)), to(std::move(seen)) {}
  explicit Transform(PointScales scales)
      : type(TransformType::grid), grid(std::make_shared<const PointScales>(std::move(scales))) {}
  Transform(const Normalization& map) : first(map.scale), second(map.offset) {}  // NOLINT(google-explicit-constructor)

  /// Whether ln(1 + x) is taken before map().
  [[nodiscard]] bool takes_logarithm() const { return type == TransformType::log1p; }
  /// Whether x is mapped by points instead of map().
  [[nodiscard]] bool has_points() const { return type == TransformType::quantile; }
  /// Whether each point of the field has a map of its own, in `grid`.
  [[nodiscard]] bool has_grid() const { return type == TransformType::grid; }
  /// Whether the transform is map() alone.
  [[nodiscard]] bool is_affine() const { return !takes_logarithm() && !has_points() && !has_grid(); }
  /// The affine map, of x or of ln(1 + x), that the transform is; with points or a grid the one that changes nothing.
  [[nodiscard]] Normalization map() const;
  /// What is wrong with the numbers, as the end of a sentence; "" when the map can be inverted.
  [[nodiscard]] std::string problem() const;
  /// "standardize(281, 21.3)" or "grid (64 x 64 points)", for messages.
  [[nodiscard]] std::string text() const;
  friend bool operator==(const Transform& a, const Transform& b);
};

}  // namespace ddpm::data
