#include "train/image_state.h"

#include "base/error.h"

namespace ddpm::train {
namespace {

std::string name_of(base::DType dtype) { return dtype == base::DType::u8 ? "uint8" : "float32"; }

base::DType parse_dtype(const std::string& name, const std::string& origin) {
  if (name == "uint8") return base::DType::u8;
  if (name == "float32") return base::DType::f32;
  throw base::OutputError("{}: dtype is \"{}\"; uint8 or float32 is wanted", origin, name);
}

/// Runs `read`, turning a missing key or a wrong type into an error that names the file.
template <typename Read>
void read_keys(const std::string& origin, Read read) {
  try {
    read();
  } catch (const base::Json::exception& error) {
    throw base::OutputError("{}: {}", origin, error.what());
  }
}

}  // namespace

ImageState ImageState::of(const data::DatasetInfo& info) {
  return {info.image.height, info.image.width, info.image.dtype, info.normalization};
}

base::Json ImageState::normalization_json() const {
  return {{"dtype", name_of(dtype)}, {"scale", normalization.scale}, {"offset", normalization.offset}};
}

void ImageState::set_normalization(const base::Json& json, const std::string& origin) {
  read_keys(origin, [&] {
    dtype = parse_dtype(json.at("dtype").get<std::string>(), origin);
    normalization = {json.at("scale").get<double>(), json.at("offset").get<double>()};
  });
}

void write_image_state(const ImageState& image, base::Json& state) {
  state["image_height"] = image.height;
  state["image_width"] = image.width;
  state["image_dtype"] = name_of(image.dtype);
  state["normalization_scale"] = image.normalization.scale;
  state["normalization_offset"] = image.normalization.offset;
}

ImageState read_image_state(const base::Json& state, const std::string& origin) {
  ImageState image;
  read_keys(origin, [&] {
    image.height = state.at("image_height").get<int64_t>();
    image.width = state.at("image_width").get<int64_t>();
    image.dtype = parse_dtype(state.at("image_dtype").get<std::string>(), origin);
    image.normalization = {state.at("normalization_scale").get<double>(),
                           state.at("normalization_offset").get<double>()};
  });
  return image;
}

}  // namespace ddpm::train
