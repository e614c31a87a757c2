#include "data/field.h"

#include <fmt/format.h>

#include "base/check.h"

namespace ddpm::data {
namespace {

using base::DType;

std::string channel_name(const ImageFormat& format, int64_t channel) {
  constexpr std::array<std::string_view, 3> kColours = {"red", "green", "blue"};
  if (format.dtype == DType::u8 && format.channels == std::ssize(kColours)) {
    return std::string(kColours.at(static_cast<std::size_t>(channel)));
  }
  if (format.dtype == DType::u8 && format.channels == 1) return "grey";
  return fmt::format("channel {}", channel);
}

}  // namespace

std::string_view numpy_name(DType dtype) {
  if (dtype == DType::u8) return "uint8";
  if (dtype == DType::f32) return "float32";
  DDPM_CHECK(dtype == DType::i64, "no field is of type {}", base::safetensors_name(dtype));
  return "int64";
}

Normalization Normalization::of(DType dtype) {
  return dtype == DType::u8 ? Normalization{.scale = 1.0 / 127.5, .offset = -1.0} : Normalization{};
}

std::size_t Field::bytes() const {
  std::size_t bytes = base::size_of(dtype);
  for (const int64_t extent : shape) bytes *= static_cast<std::size_t>(extent);
  return bytes;
}

std::vector<Field> image_fields(const ImageFormat& format, const Normalization& normalization, bool has_labels) {
  std::vector<Field> fields = {{.name = "images",
                                .role = FieldRole::image,
                                .path = "/images",
                                .shape = {format.height, format.width, format.channels},
                                .dtype = format.dtype,
                                .variables = {}}};
  for (int64_t c = 0; c < format.channels; ++c) {
    fields.front().variables.push_back({.name = channel_name(format, c), .unit = "", .transform = normalization});
  }
  if (has_labels) {
    fields.push_back({.name = "labels",
                      .role = FieldRole::labels,
                      .path = "/labels",
                      .shape = {},
                      .dtype = DType::i64,
                      .variables = {}});
  }
  return fields;
}

}  // namespace ddpm::data
