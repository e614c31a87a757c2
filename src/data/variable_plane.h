// The values of one variable in one image.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "data/field.h"

namespace ddpm::data {

class VariablePlane {
 public:
  /// `transformed`: values are those that the model sees, after their variable's transform. The field must live on.
  VariablePlane(const Field& field, bool transformed);

  /// Takes variable `v` of an image's values, channels last, and of its mask, which may be empty.
  void take(std::span<const std::byte> values, std::span<const std::byte> valid, std::size_t v);

  /// The finite values of valid pixels.
  [[nodiscard]] std::span<const float> kept() const { return kept_; }
  /// How many pixels are not valid.
  [[nodiscard]] int64_t masked() const { return masked_; }
  /// How many valid pixels hold NaN or infinity.
  [[nodiscard]] int64_t non_finite() const { return non_finite_; }

  /// All pixels less the mean of the valid ones; 0 at the others. Call it only where all valid pixels are finite, and
  /// there is one. `valid` is what take() got.
  std::span<const double> centred(std::span<const std::byte> valid);

 private:
  void transform(const Transform& transform);
  void select(std::span<const std::byte> valid);

  const Field& field_;
  ImageFormat format_;
  bool transformed_;
  std::vector<float> all_;
  std::vector<float> some_;  // what is kept of all_, where that is not everything
  std::vector<double> centred_;
  std::span<const float> kept_;
  int64_t masked_ = 0;
  int64_t non_finite_ = 0;
};

}  // namespace ddpm::data
