#include "data/variable_plane.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "data/finite.h"
#include "data/image_sweep.h"
#include "data/value_map.h"

namespace ddpm::data {
VariablePlane::VariablePlane(const Field& field, bool transformed)
    : field_(field), format_(values_format(field)), transformed_(transformed) {}

void VariablePlane::take(std::span<const std::byte> values, std::span<const std::byte> valid, std::size_t v) {
  const auto pixels = static_cast<std::size_t>(format_.pixels());
  const auto channels = static_cast<std::size_t>(format_.channels);
  all_.resize(pixels);
  if (format_.dtype == base::DType::u8) {
    for (std::size_t p = 0; p < pixels; ++p) all_[p] = std::to_integer<uint8_t>(values[p * channels + v]);
  } else {
    for (std::size_t p = 0; p < pixels; ++p) {
      std::memcpy(&all_[p], values.data() + (p * channels + v) * sizeof(float), sizeof(float));
    }
  }
  if (transformed_) transform(field_.variables[v].transform);
  select(valid);
}

void VariablePlane::transform(const Transform& transform) {
  const ValueMap map(transform);
  for (std::size_t p = 0; p < all_.size(); ++p) all_[p] = static_cast<float>(map.seen(all_[p], p));
}

void VariablePlane::select(std::span<const std::byte> valid) {
  masked_ = std::ranges::count(valid, std::byte{0});
  non_finite_ = 0;
  kept_ = all_;
  if (masked_ == 0 && !first_non_finite(std::as_bytes(kept_))) return;
  some_.clear();
  for (std::size_t p = 0; p < all_.size(); ++p) {
    if (!valid.empty() && valid[p] == std::byte{0}) continue;
    if (std::isfinite(all_[p])) {
      some_.push_back(all_[p]);
    } else {
      ++non_finite_;
    }
  }
  kept_ = some_;
}

std::span<const double> VariablePlane::centred(std::span<const std::byte> valid) {
  double sum = 0.0;
  for (const float x : kept_) sum += x;
  const double mean = sum / static_cast<double>(kept_.size());
  centred_.resize(all_.size());
  for (std::size_t p = 0; p < all_.size(); ++p) centred_[p] = all_[p] - mean;
  for (std::size_t p = 0; p < valid.size(); ++p) {
    if (valid[p] == std::byte{0}) centred_[p] = 0.0;
  }
  return centred_;
}

}  // namespace ddpm::data
