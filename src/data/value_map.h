// The map of a transform, number by number, both ways: a Transform with what it computes once taken out of the loop.
#pragma once

#include <cstddef>

#include "data/transform.h"

namespace ddpm::data {

class ValueMap {
 public:
  /// The transform must live on.
  explicit ValueMap(const Transform& transform);

  /// What the model sees of a stored value; `point` is its place in the field, in the order of stored values.
  [[nodiscard]] double seen(double stored, std::size_t point) const;
  /// The inverse. Where a grid has one value only, what the model sees says nothing, and that value is given.
  [[nodiscard]] double stored(double seen, std::size_t point) const;
  /// Whether both are the same number.
  [[nodiscard]] bool is_identity() const;

 private:
  const Transform& transform_;
  Normalization map_;
  bool logarithm_;
};

}  // namespace ddpm::data
