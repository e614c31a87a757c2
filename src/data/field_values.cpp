#include "data/field_values.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "base/error.h"
#include "data/finite.h"
#include "data/image_block.h"

namespace ddpm::data {
namespace {

void expect_finite_parameters(std::span<const std::byte> values, const Field& field, const BlockOrigin& origin) {
  const std::optional<int64_t> found = first_non_finite(values);
  if (!found) return;
  float value = 0.0F;
  std::memcpy(&value, values.data() + static_cast<std::size_t>(*found) * sizeof(value), sizeof(value));
  throw base::DatasetError("{}: parameter {} of image {} is {}; finite values are wanted", origin.label,
                           *found % field.shape.front(), origin.first + *found / field.shape.front(), value);
}

/// What gives the masks of these images, where they have any.
BlockMasks masks_of(const std::vector<Field>& fields, const FieldValues& values, std::span<const std::byte> set_mask) {
  const auto mask = std::ranges::find(fields, FieldRole::mask, &Field::role);
  if (mask != fields.end()) {
    const std::span<const std::byte> masks = values[static_cast<std::size_t>(mask - fields.begin())];
    return [masks] { return std::vector<std::byte>(masks.begin(), masks.end()); };
  }
  if (set_mask.empty()) return {};
  const auto image = std::ranges::find(fields, FieldRole::image, &Field::role);
  const std::size_t images = values[static_cast<std::size_t>(image - fields.begin())].size() / image->bytes();
  return [set_mask, images] {
    std::vector<std::byte> all;
    for (std::size_t i = 0; i < images; ++i) all.insert(all.end(), set_mask.begin(), set_mask.end());
    return all;
  };
}

}  // namespace

void expect_storable(const std::vector<Field>& fields, const FieldValues& values, std::span<const std::byte> set_mask,
                     int64_t first, const std::string& origin) {
  for (std::size_t f = 0; f < fields.size(); ++f) {
    const Field& field = fields[f];
    const std::string label = origin + ":" + field.path;
    const BlockOrigin place{label, first};
    if (field.role == FieldRole::mask) require_zero_or_one(values[f], field.format(), place);
    if (field.dtype != base::DType::f32) continue;
    if (field.role == FieldRole::parameters) {
      expect_finite_parameters(values[f], field, place);
    } else {
      const bool masked = field.role == FieldRole::image;
      require_finite(values[f], field.format(), place, masked ? masks_of(fields, values, set_mask) : BlockMasks{});
    }
  }
}

}  // namespace ddpm::data
