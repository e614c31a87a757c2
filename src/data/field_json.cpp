#include "data/field_json.h"

#include <algorithm>
#include <set>
#include <string_view>

#include <fmt/ranges.h>

#include "base/error.h"
#include "base/named.h"

namespace ddpm::data {

using base::DatasetError;
using base::DType;
using base::Json;
using base::OrderedJson;

namespace {

// Limits that no real set reaches; they keep every product far from overflow.
constexpr int64_t kMaxImageElements = int64_t{1} << 31;
constexpr std::size_t kMaxNameBytes = 255;
constexpr std::string_view kAffine = "affine";

OrderedJson to_json(const Normalization& map) { return {{"scale", map.scale}, {"offset", map.offset}}; }

OrderedJson to_json(const Variable& variable) {
  OrderedJson transform = {{"type", kAffine}};
  transform.update(to_json(variable.transform));
  return {{"name", variable.name}, {"unit", variable.unit}, {"transform", std::move(transform)}};
}

Normalization parse_map(const JsonObject& object) {
  const Normalization map{.scale = object.number("scale"), .offset = object.number("offset")};
  if (map.scale == 0.0) throw DatasetError("{}: \"scale\" is 0, images would vanish", object.where());
  return map;
}

/// A text of printable bytes, not too long; "" where that is allowed.
std::string plain_text(const JsonObject& object, const char* key, bool may_be_empty) {
  std::string text = object.text(key);
  const auto odd = [](char c) { return static_cast<unsigned char>(c) < ' ' || c == '\x7f'; };
  if (text.size() > kMaxNameBytes || (text.empty() && !may_be_empty) || std::ranges::any_of(text, odd)) {
    throw DatasetError("{}: \"{}\" is {}, {} to {} printable bytes are wanted", object.where(), key,
                       base::excerpt(object.at(key)), may_be_empty ? 0 : 1, kMaxNameBytes);
  }
  return text;
}

/// The value of E that the text of `key` names.
template <base::Named E>
E parse_named(const JsonObject& object, const char* key) {
  const std::string text = object.text(key);
  if (const auto value = base::find_named<E>(text)) return *value;
  throw DatasetError("{}: \"{}\" is \"{}\", this program reads {}", object.where(), key, text,
                     fmt::join(names_of(E{}), ", "));
}

DType parse_dtype(const JsonObject& object) {
  const std::string text = object.text("dtype");
  for (const DType dtype : {DType::u8, DType::f32, DType::i64}) {
    if (text == numpy_name(dtype)) return dtype;
  }
  throw DatasetError("{}: \"dtype\" is \"{}\", uint8, float32 or int64 is wanted", object.where(), text);
}

Variable parse_variable(const Json& json, const std::string& where) {
  const JsonObject object(json, where, {"name", "unit", "transform"});
  const JsonObject transform(object.at("transform"), where + ": transform", {"type", "scale", "offset"});
  if (const std::string type = transform.text("type"); type != kAffine) {
    throw DatasetError("{}: \"type\" is \"{}\", this program reads {}", transform.where(), type, kAffine);
  }
  return {.name = plain_text(object, "name", false),
          .unit = plain_text(object, "unit", true),
          .transform = parse_map(transform)};
}

std::vector<int64_t> parse_shape(const JsonObject& object) {
  std::vector<int64_t> shape;
  for (const Json& extent : object.array("shape")) {
    const bool fits = extent.is_number_integer() && extent.get<int64_t>() >= 1 && extent.get<int64_t>() <= kMaxSide;
    if (!fits) {
      throw DatasetError("{}: \"shape\" holds {}, integers from 1 to {} are wanted", object.where(),
                         base::excerpt(extent), kMaxSide);
    }
    shape.push_back(extent.get<int64_t>());
  }
  return shape;
}

Field parse_field(const Json& json, const std::string& where) {
  const JsonObject object(json, where, {"name", "role", "path", "shape", "dtype", "variables"});
  Field field{.name = plain_text(object, "name", false),
              .role = parse_named<FieldRole>(object, "role"),
              .path = plain_text(object, "path", false),
              .shape = parse_shape(object),
              .dtype = parse_dtype(object),
              .variables = {}};
  if (field.path.front() != '/') {
    throw DatasetError("{}: \"path\" is \"{}\", the path of an HDF5 dataset is wanted, such as \"/images\"", where,
                       field.path);
  }
  for (const Json& variable : object.array("variables")) {
    field.variables.push_back(parse_variable(variable, fmt::format("{}: variable {}", where, field.variables.size())));
  }
  return field;
}

std::string shape_text(const Field& field) {
  return fmt::format("[{}] of {} with {} variables", fmt::join(field.shape, ", "), numpy_name(field.dtype),
                     field.variables.size());
}

/// Whether shape, type and variables are those of its role.
void expect_usable(const Field& field, const std::string& where) {
  if (field.role == FieldRole::labels) {
    if (field.shape.empty() && field.dtype == DType::i64 && field.variables.empty()) return;
    throw DatasetError("{}: labels are {}, [] of int64 with 0 variables is wanted", where, shape_text(field));
  }
  const bool is_image =
      field.shape.size() == 3 && field.dtype != DType::i64 && std::ssize(field.variables) == field.shape[2];
  if (!is_image) {
    throw DatasetError(
        "{}: images are {}, [height, width, channels] of uint8 or float32 with one variable for each channel is wanted",
        where, shape_text(field));
  }
  for (const Variable& variable : field.variables) {
    if (variable.transform == field.variables.front().transform) continue;
    throw DatasetError("{}: variable \"{}\" has another transform than \"{}\", one for all is wanted", where,
                       variable.name, field.variables.front().name);
  }
}

}  // namespace

OrderedJson to_json(const std::vector<Field>& fields) {
  OrderedJson list = OrderedJson::array();
  for (const Field& field : fields) {
    OrderedJson variables = OrderedJson::array();
    for (const Variable& variable : field.variables) variables.push_back(to_json(variable));
    list.push_back({{"name", field.name},
                    {"role", base::name_of(field.role)},
                    {"path", field.path},
                    {"shape", field.shape},
                    {"dtype", numpy_name(field.dtype)},
                    {"variables", std::move(variables)}});
  }
  return list;
}

std::vector<Field> parse_fields(const JsonObject& root) {
  std::vector<Field> fields;
  std::set<std::string> names;
  std::set<std::string> paths;
  std::set<FieldRole> roles;
  for (const Json& item : root.array("fields")) {
    const std::string where = fmt::format("{}: field {}", root.where(), fields.size());
    Field field = parse_field(item, where);
    expect_usable(field, where);
    if (!names.insert(field.name).second || !paths.insert(field.path).second || !roles.insert(field.role).second) {
      throw DatasetError("{}: \"{}\" has the name, path or role of a field before it", where, field.name);
    }
    fields.push_back(std::move(field));
  }
  if (!roles.contains(FieldRole::image)) throw DatasetError("{}: no field has the role image", root.where());
  return fields;
}

void put_image(OrderedJson& json, const ImageFormat& format, const Normalization& normalization) {
  json["height"] = format.height;
  json["width"] = format.width;
  json["channels"] = format.channels;
  json["dtype"] = numpy_name(format.dtype);
  json["normalization"] = to_json(normalization);
}

ImageFormat parse_image(const JsonObject& root) {
  ImageFormat image{.height = root.integer("height", 1, kMaxSide),
                    .width = root.integer("width", 1, kMaxSide),
                    .channels = root.integer("channels", 1, kMaxChannels),
                    .dtype = parse_dtype(root)};
  if (image.elements() > kMaxImageElements) {
    throw DatasetError("{}: images of {}x{}x{} are larger than {} elements", root.where(), image.height, image.width,
                       image.channels, kMaxImageElements);
  }
  if (image.dtype == DType::i64) {
    throw DatasetError("{}: \"dtype\" is \"int64\", uint8 or float32 is wanted", root.where());
  }
  return image;
}

Normalization parse_normalization(const JsonObject& root, DType dtype) {
  const JsonObject object(root.at("normalization"), root.where() + ": normalization", {"scale", "offset"});
  const Normalization map = parse_map(object);
  if (dtype == DType::u8 && map != Normalization::of(DType::u8)) {
    throw DatasetError("{}: uint8 images are always x / 127.5 - 1, not x * {} + {}", object.where(), map.scale,
                       map.offset);
  }
  return map;
}

}  // namespace ddpm::data
