#include "denoise/stored_images.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty_like.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "denoise/grid_map.h"
#include "denoise/point_map.h"

namespace ddpm::denoise {

at::Tensor stored_images(const at::Tensor& images, const ImageRecord& image) {
  if (image.dtype == base::DType::u8) return images.add(1.0).mul(127.5).round().clamp(0.0, 255.0);
  at::Tensor stored = at::empty_like(images);
  const std::vector<data::Transform> transforms = image.transforms(images.size(1));
  for (int64_t c = 0; c < images.size(1); ++c) {
    const data::Transform& transform = transforms.at(static_cast<std::size_t>(c));
    if (transform.has_points()) {
      stored.select(1, c).copy_(PointMap(transform.from, transform.to, images.device()).inverse()(images.select(1, c)));
      continue;
    }
    if (transform.has_grid()) {
      stored.select(1, c).copy_(GridMap(*transform.grid, images.device()).stored(images.select(1, c)));
      continue;
    }
    const data::Normalization map = transform.map();
    const at::Tensor values = images.select(1, c).sub(map.offset).div(map.scale);
    stored.select(1, c).copy_(transform.takes_logarithm() ? values.expm1() : values);
  }
  return stored;
}

void expect_invertible(const ImageRecord& image) {
  for (const data::Field& field : image.fields) {
    if (field.role != data::FieldRole::image) continue;
    for (const data::Variable& variable : field.variables) {
      const data::Transform& map = variable.transform;
      if (!map.has_grid() || map.grid->sides == image.sides()) continue;
      throw base::ConfigError(
          "--denormalize: the transform of {} is a {}, but images of {} are drawn; wanted: --size {}, or values in the "
          "model's range",
          variable.name, map.text(), fmt::join(image.sides(), " x "), fmt::join(map.grid->sides, "x"));
    }
  }
}

data::Field stored_field(const ImageRecord& image, int64_t channels, bool denormalized) {
  const base::DType dtype = denormalized ? image.dtype : base::DType::f32;
  data::Field field =
      data::make_field(data::FieldRole::image, data::kImagesPath, image.format(channels, dtype).shape(), dtype, false);
  image.name_variables(field.variables);
  const std::vector<data::Transform> transforms = image.transforms(channels);
  for (std::size_t c = 0; c < field.variables.size(); ++c) {
    field.variables[c].transform = denormalized ? transforms.at(c) : data::Transform();
    if (!denormalized) field.variables[c].unit = "";
  }
  return field;
}

}  // namespace ddpm::denoise
