#include "denoise/image_record.h"

#include <algorithm>
#include <cfloat>
#include <cmath>

#include "base/error.h"
#include "base/json_fields.h"
#include "data/field.h"
#include "data/field_json.h"
#include "denoise/file_reading.h"

namespace ddpm::denoise {
namespace {

using base::JsonFields;

constexpr const char* kClassNames = "class_names";
constexpr const char* kFields = "fields";
constexpr const char* kPositions = "positions";
constexpr const char* kWraps = "wraps";
constexpr const char* kDepth = "image_depth";
constexpr const char* kFiles = "files";
constexpr const char* kVariables = "variables";
constexpr const char* kVariablesOfState = "image_variables";
constexpr const char* kWhole = "whole";
constexpr const char* kLabelsArray = "labels";
constexpr const char* kLabelsArrayOfState = "image_labels";
constexpr const char* kWholeOfState = "image_whole";
constexpr const char* kMask = "mask";
constexpr const char* kMaskOfState = "image_mask";

base::DType parse_dtype(const std::string& name, const std::string& origin) {
  for (const base::DType dtype : {base::DType::u8, base::DType::f32}) {
    if (name == data::numpy_name(dtype)) return dtype;
  }
  throw base::OutputError("{}: dtype is {}; uint8 or float32 is wanted", origin, base::excerpt(name));
}

/// The numbers must fit float32, in which images are mapped, and the scale must not be 0.
data::Normalization parse_normalization(const JsonFields& fields, const char* scale, const char* offset) {
  const data::Normalization map = {fields.number(scale, -FLT_MAX, FLT_MAX), fields.number(offset, -FLT_MAX, FLT_MAX)};
  if (std::abs(map.scale) >= FLT_MIN) return map;
  throw base::OutputError("{}: '{}' is {}: images would vanish", fields.place(), scale, map.scale);
}

bool is_set(const base::Json& json, const char* key, const std::string& place) {
  if (!json.contains(key)) return false;
  if (json[key].is_boolean()) return json[key].get<bool>();
  throw base::OutputError("{}: '{}' is {}; true or false is wanted", place, key, base::excerpt(json[key]));
}

/// A list as dataset.json has it. What is wrong with it is wrong with a model's files.
template <typename T>
std::vector<T> parse_list(std::vector<T> (*parse)(const base::Json&, const std::string&), const base::Json& list,
                          const std::string& origin) {
  try {
    return parse(list, origin);
  } catch (const base::DatasetError& error) {
    throw base::OutputError("{}", error.what());
  }
}

std::vector<data::Field> parse_fields(const base::Json& list, const std::string& origin) {
  return parse_list(data::parse_field_list, list, origin);
}

std::vector<data::Variable> parse_names(const base::Json& list, const std::string& origin) {
  return parse_list(data::parse_names, list, origin);
}

/// One of true and false for each axis.
std::vector<bool> parse_wraps(const base::Json& list, const std::string& place) {
  std::vector<bool> wraps;
  const bool is_list = list.is_array() && (list.size() == 2 || list.size() == 3);
  for (std::size_t axis = 0; is_list && axis < list.size(); ++axis) {
    if (list[axis].is_boolean()) wraps.push_back(list[axis].get<bool>());
  }
  if (is_list && wraps.size() == list.size()) return wraps;
  throw base::OutputError("{}: '{}' is {}; true or false for each of 2 or 3 axes is wanted", place, kWraps,
                          base::excerpt(list));
}

/// The sides of whole images.
std::vector<int64_t> parse_whole(const base::Json& list, const std::string& place) {
  std::vector<int64_t> sides;
  const bool is_list = list.is_array() && (list.size() == 2 || list.size() == 3);
  for (std::size_t axis = 0; is_list && axis < list.size(); ++axis) {
    sides.push_back(base::to_integer(list[axis], fmt::format("{}: '{}'", place, kWhole)));
  }
  const auto is_side = [](int64_t side) { return side >= 1 && side <= data::kMaxSide; };
  if (is_list && std::ranges::all_of(sides, is_side)) return sides;
  throw base::OutputError("{}: '{}' is {}; 2 or 3 sides from 1 to {} are wanted", place, kWhole, base::excerpt(list),
                          data::kMaxSide);
}

/// The depth that a list of fields says images have; 0: they are flat, or the list is empty.
int64_t depth_of(const std::vector<data::Field>& fields) {
  for (const data::Field& field : fields) {
    if (field.role == data::FieldRole::image) return field.format().depth;
  }
  return 0;
}

}  // namespace

bool ImageRecord::has_other_places(const ImageRecord& other) const {
  const std::vector<int64_t> own = whole_sides();
  const std::vector<int64_t> others = other.whole_sides();
  return positions && other.positions && !own.empty() && !others.empty() && own != others;
}

bool ImageRecord::has_other_names(const ImageRecord& other) const {
  return !names.empty() && !other.names.empty() && names != other.names;
}

bool ImageRecord::is_like(const ImageRecord& other) const {
  if (has_other_places(other) || has_other_names(other)) return false;
  ImageRecord like = *this;
  like.reading = other.reading;
  like.names = other.names;
  like.labels = other.labels;
  like.whole = other.whole;
  like.mask = other.mask;
  return like == other;
}

std::vector<int64_t> ImageRecord::whole_sides() const {
  const data::Field* images = field_of(fields, data::FieldRole::image);
  return images == nullptr ? whole : images->format().sides();
}

std::vector<data::Transform> ImageRecord::transforms(int64_t channels) const {
  for (const data::Field& field : fields) {
    if (field.role != data::FieldRole::image) continue;
    std::vector<data::Transform> each;
    for (const data::Variable& variable : field.variables) each.push_back(variable.transform);
    return each;
  }
  return std::vector<data::Transform>(static_cast<std::size_t>(channels), normalization);
}

void ImageRecord::name_variables(std::vector<data::Variable>& variables) const {
  const data::Field* images = field_of(fields, data::FieldRole::image);
  const std::vector<data::Variable>& recorded = images == nullptr ? names : images->variables;
  if (recorded.size() != variables.size()) return;
  for (std::size_t v = 0; v < variables.size(); ++v) {
    variables[v].name = recorded[v].name;
    variables[v].unit = recorded[v].unit;
  }
}

base::Json ImageRecord::normalization_json() const {
  base::Json json = {
      {"dtype", data::numpy_name(dtype)}, {"scale", normalization.scale}, {"offset", normalization.offset}};
  if (!fields.empty()) json[kFields] = base::Json::parse(data::to_json(fields).dump());
  if (positions) json[kPositions] = true;
  if (!wraps.empty()) json[kWraps] = wraps;
  return json;
}

base::Json ImageRecord::record_json() const {
  base::Json json = normalization_json();
  if (!reading.variables.empty()) json[kFiles] = to_json(reading);
  if (!names.empty()) json[kVariables] = base::Json::parse(data::names_json(names).dump());
  if (!labels.empty()) json[kLabelsArray] = labels;
  if (!whole.empty()) json[kWhole] = whole;
  if (!mask.empty()) json[kMask] = mask.to_json();
  return json;
}

void ImageRecord::set_normalization(const base::Json& json, const std::string& origin) {
  const JsonFields values(json, origin, {"dtype", "scale", "offset"}, JsonFields::Others::ignored);
  dtype = parse_dtype(values.text("dtype"), origin);
  normalization = parse_normalization(values, "scale", "offset");
  if (json.contains(kFields)) fields = parse_fields(json[kFields], origin);
  positions = is_set(json, kPositions, values.place());
  if (json.contains(kWraps)) wraps = parse_wraps(json[kWraps], values.place());
  if (json.contains(kFiles)) reading = parse_file_reading(json[kFiles], fmt::format("{}: '{}'", origin, kFiles));
  if (json.contains(kVariables)) names = parse_names(json[kVariables], fmt::format("{}: '{}'", origin, kVariables));
  if (values.has(kLabelsArray)) labels = values.text(kLabelsArray);
  if (json.contains(kWhole)) whole = parse_whole(json[kWhole], values.place());
  if (json.contains(kMask)) mask = RecordedMask::parse(json[kMask], fmt::format("{}: '{}'", origin, kMask));
}

void write_image_record(const ImageRecord& image, base::Json& state) {
  state["image_height"] = image.height;
  state["image_width"] = image.width;
  state["image_dtype"] = data::numpy_name(image.dtype);
  state["normalization_scale"] = image.normalization.scale;
  state["normalization_offset"] = image.normalization.offset;
  if (!image.fields.empty()) state[kFields] = data::to_json(image.fields).dump();
  if (image.positions) state[kPositions] = true;
  if (image.depth != depth_of(image.fields)) state[kDepth] = image.depth;
  if (!image.wraps.empty()) state[kWraps] = base::Json(image.wraps).dump();
  if (!image.reading.variables.empty()) state[kFiles] = to_json(image.reading).dump();
  if (!image.names.empty()) state[kVariablesOfState] = data::names_json(image.names).dump();
  if (!image.labels.empty()) state[kLabelsArrayOfState] = image.labels;
  if (!image.whole.empty()) state[kWholeOfState] = base::Json(image.whole).dump();
  if (!image.mask.empty()) state[kMaskOfState] = image.mask.to_json().dump();
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
  // What is a list or an object is the text of it.
  const auto read = [&](const char* key, const auto& parse) {
    if (!fields.has(key)) return;
    const std::string place = fmt::format("{}: '{}'", origin, key);
    const std::string& text = fields.text(key);
    parse(base::parse_json_file(text, place, text.size()), place);
  };
  read(kFields, [&](const base::Json& json, const std::string& place) { image.fields = parse_fields(json, place); });
  image.depth = fields.has(kDepth) ? fields.integer(kDepth, 1, data::kMaxSide) : depth_of(image.fields);
  image.positions = is_set(state, kPositions, fields.place());
  read(kWraps, [&](const base::Json& json, const std::string& /*place*/) { image.wraps = parse_wraps(json, origin); });
  read(kClassNames,
       [&](const base::Json& json, const std::string& place) { image.class_names = base::to_texts(json, place); });
  read(kFiles,
       [&](const base::Json& json, const std::string& place) { image.reading = parse_file_reading(json, place); });
  read(kVariablesOfState,
       [&](const base::Json& json, const std::string& place) { image.names = parse_names(json, place); });
  read(kMaskOfState,
       [&](const base::Json& json, const std::string& place) { image.mask = RecordedMask::parse(json, place); });
  if (fields.has(kLabelsArrayOfState)) image.labels = fields.text(kLabelsArrayOfState);
  read(kWholeOfState,
       [&](const base::Json& json, const std::string& /*place*/) { image.whole = parse_whole(json, origin); });
  return image;
}

}  // namespace ddpm::denoise
