#include "generate/generator.h"

#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "base/check.h"

namespace ddpm::generate {

std::vector<std::string> Couplings::class_names() const {
  std::vector<std::string> names;
  if (values.size() < 2) return names;
  for (const double value : values) names.push_back(fmt::format("{} {}", name, value));
  return names;
}

data::Field make_image_field(const std::vector<int64_t>& sides, base::DType dtype,
                             std::vector<data::Variable> variables) {
  std::vector<int64_t> shape = sides;
  shape.push_back(std::ssize(variables));
  data::Field field = data::make_field(data::FieldRole::image, data::kImagesPath, std::move(shape), dtype, false);
  field.variables = std::move(variables);
  return field;
}

void store(std::span<const double> values, std::span<std::byte> image) {
  DDPM_CHECK(image.size() == values.size() * sizeof(float), "{} values for {} bytes", values.size(), image.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto value = static_cast<float>(values[i]);
    std::memcpy(image.data() + i * sizeof(float), &value, sizeof(float));
  }
}

}  // namespace ddpm::generate
