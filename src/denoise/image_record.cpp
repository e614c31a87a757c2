#include "denoise/image_record.h"

#include <cfloat>
#include <cmath>

#include "base/error.h"
#include "base/json_fields.h"

namespace ddpm::denoise {
namespace {

using base::JsonFields;

constexpr const char* kClassNames = "class_names";

std::string name_of(base::DType dtype) { return dtype == base::DType::u8 ? "uint8" : "float32"; }

base::DType parse_dtype(const std::string& name, const std::string& origin) {
  if (name == "uint8") return base::DType::u8;
  if (name == "float32") return base::DType::f32;
  throw base::OutputError("{}: dtype is {}; uint8 or float32 is wanted", origin, base::excerpt(name));
}

/// The numbers must fit float32, in which images are mapped, and the scale must not be 0.
data::Normalization parse_normalization(const JsonFields& fields, const char* scale, const char* offset) {
  const data::Normalization map = {fields.number(scale, -FLT_MAX, FLT_MAX), fields.number(offset, -FLT_MAX, FLT_MAX)};
  if (std::abs(map.scale) >= FLT_MIN) return map;
  throw base::OutputError("{}: '{}' is {}: images would vanish", fields.place(), scale, map.scale);
}

}  // namespace

ImageRecord ImageRecord::of(const data::DatasetInfo& info, bool labelled) {
  const data::ImageFormat stored = info.image();
  return {stored.height, stored.width, stored.dtype, info.normalization(),
          labelled ? info.class_names : std::vector<std::string>{}};
}

base::Json ImageRecord::normalization_json() const {
  return {{"dtype", name_of(dtype)}, {"scale", normalization.scale}, {"offset", normalization.offset}};
}

void ImageRecord::set_normalization(const base::Json& json, const std::string& origin) {
  const JsonFields fields(json, origin, {"dtype", "scale", "offset"}, JsonFields::Others::ignored);
  dtype = parse_dtype(fields.text("dtype"), origin);
  normalization = parse_normalization(fields, "scale", "offset");
}

void write_image_record(const ImageRecord& image, base::Json& state) {
  state["image_height"] = image.height;
  state["image_width"] = image.width;
  state["image_dtype"] = name_of(image.dtype);
  state["normalization_scale"] = image.normalization.scale;
  state["normalization_offset"] = image.normalization.offset;
  if (!image.class_names.empty()) state[kClassNames] = base::Json(image.class_names).dump();
}

bool holds_image_record(const base::Json& state) { return state.contains("image_height"); }

ImageRecord read_image_record(const base::Json& state, const std::string& origin) {
  const JsonFields fields(state, origin,
                          {"image_height", "image_width", "image_dtype", "normalization_scale", "normalization_offset"},
                          JsonFields::Others::ignored);
  ImageRecord image;
  image.height = fields.integer("image_height", 1, data::kMaxSide);
  image.width = fields.integer("image_width", 1, data::kMaxSide);
  image.dtype = parse_dtype(fields.text("image_dtype"), origin);
  image.normalization = parse_normalization(fields, "normalization_scale", "normalization_offset");
  if (fields.has(kClassNames)) {
    const std::string place = fmt::format("{}: '{}'", origin, kClassNames);
    const std::string& text = fields.text(kClassNames);
    image.class_names = base::to_texts(base::parse_json_file(text, place, text.size()), place);
  }
  return image;
}

}  // namespace ddpm::denoise
