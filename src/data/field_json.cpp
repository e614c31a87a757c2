#include "data/field_json.h"

#include <algorithm>
#include <set>
#include <string_view>

#include <fmt/ranges.h>

#include "base/error.h"
#include "base/file_error.h"
#include "base/named.h"
#include "data/plain_text.h"
#include "data/transform_json.h"

namespace ddpm::data {

using base::DatasetError;
using base::DType;
using base::Json;
using base::JsonFields;
using base::OrderedJson;

namespace {

// Limits that no real set reaches; they keep every product far from overflow.
constexpr int64_t kMaxImageElements = int64_t{1} << 31;
constexpr const char* kPerSet = "per_set";

OrderedJson to_json(const Normalization& map) { return {{"scale", map.scale}, {"offset", map.offset}}; }

OrderedJson to_json(const Variable& variable) {
  return {{"name", variable.name}, {"unit", variable.unit}, {"transform", to_json(variable.transform)}};
}

Normalization parse_map(const JsonFields& object) {
  const Normalization map{.scale = object.number("scale"), .offset = object.number("offset")};
  if (map.scale == 0.0) throw DatasetError("{}: \"scale\" is 0, images would vanish", object.place());
  return map;
}

/// A text of printable bytes, not too long; "" where that is allowed.
std::string plain_text(const JsonFields& object, const char* key, bool may_be_empty) {
  std::string text = object.text(key);
  if ((text.empty() && !may_be_empty) || !is_plain(text)) {
    throw DatasetError("{}: \"{}\" is {}, {} to {} printable bytes are wanted", object.place(), key,
                       base::excerpt(text), may_be_empty ? 0 : 1, kMaxNameBytes);
  }
  return text;
}

DType parse_dtype(const JsonFields& object) {
  const std::string text = object.text("dtype");
  for (const DType dtype : {DType::u8, DType::f32, DType::i64}) {
    if (text == numpy_name(dtype)) return dtype;
  }
  throw DatasetError("{}: \"dtype\" is \"{}\", uint8, float32 or int64 is wanted", object.place(), text);
}

Variable parse_name(const JsonFields& object) {
  return {.name = plain_text(object, "name", false), .unit = plain_text(object, "unit", true), .transform = {}};
}

Variable parse_variable(const Json& json, const std::string& where) {
  const JsonFields object(json, where, {"name", "unit", "transform"});
  Variable variable = parse_name(object);
  variable.transform = parse_transform(object.object("transform"), where + ": transform");
  return variable;
}

std::vector<int64_t> parse_shape(const JsonFields& object) {
  std::vector<int64_t> shape;
  for (const Json& extent : object.array("shape")) {
    const bool fits = extent.is_number_integer() && extent.get<int64_t>() >= 1 && extent.get<int64_t>() <= kMaxSide;
    if (!fits) {
      throw DatasetError("{}: \"shape\" holds {}, integers from 1 to {} are wanted", object.place(),
                         base::excerpt(extent), kMaxSide);
    }
    shape.push_back(extent.get<int64_t>());
  }
  return shape;
}

Field parse_field(const Json& json, const std::string& where) {
  const JsonFields object(json, where, {"name", "role", "path", "shape", "dtype", "variables"}, {kPerSet});
  const bool per_set = object.has(kPerSet);
  Field field{.name = plain_text(object, "name", false),
              .role = object.named<FieldRole>("role"),
              .path = plain_text(object, "path", false),
              .shape = parse_shape(object),
              .dtype = parse_dtype(object),
              .variables = {},
              .per_set = per_set && object.boolean(kPerSet)};
  if (per_set && !field.per_set)
    throw DatasetError("{}: \"{}\" is false, true is wanted, or no such key", where, kPerSet);
  if (field.path.front() != '/') {
    throw DatasetError("{}: \"path\" is \"{}\", the path of an HDF5 dataset is wanted, such as \"/images\"", where,
                       field.path);
  }
  for (const Json& variable : object.array("variables")) {
    field.variables.push_back(parse_variable(variable, fmt::format("{}: variable {}", where, field.variables.size())));
  }
  return field;
}

std::vector<Field> fields_of(const Json& list, const std::string& where_list) {
  if (!list.is_array()) throw DatasetError("{}: an array of fields is wanted", where_list);
  std::vector<Field> fields;
  std::set<std::string> names;
  std::set<std::string> paths;
  std::set<FieldRole> roles;
  for (const Json& item : list) {
    const std::string where = fmt::format("{}: field {}", where_list, fields.size());
    Field field = parse_field(item, where);
    expect_usable(field, where);
    if (!names.insert(field.name).second || !paths.insert(field.path).second || !roles.insert(field.role).second) {
      throw DatasetError("{}: \"{}\" has the name, path or role of a field before it", where, field.name);
    }
    fields.push_back(std::move(field));
  }
  if (!roles.contains(FieldRole::image)) throw DatasetError("{}: no field has the role image", where_list);
  expect_fitting(fields, where_list);
  return fields;
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
    if (field.per_set) list.back()[kPerSet] = true;
  }
  return list;
}

std::vector<Field> parse_field_list(const Json& list, const std::string& where) {
  return base::read_as<DatasetError>([&] { return fields_of(list, where); });
}

OrderedJson names_json(const std::vector<Variable>& variables) {
  OrderedJson list = OrderedJson::array();
  for (const Variable& variable : variables) list.push_back({{"name", variable.name}, {"unit", variable.unit}});
  return list;
}

std::vector<Variable> parse_names(const Json& list, const std::string& where) {
  if (!list.is_array()) throw DatasetError("{}: an array of variables is wanted", where);
  return base::read_as<DatasetError>([&] {
    std::vector<Variable> variables;
    for (const Json& item : list) {
      const std::string place = fmt::format("{}: variable {}", where, variables.size());
      variables.push_back(parse_name({item, place, {"name", "unit"}}));
    }
    return variables;
  });
}

void put_image(OrderedJson& json, const ImageFormat& format, const Normalization& normalization) {
  if (format.depth > 0) json["depth"] = format.depth;
  json["height"] = format.height;
  json["width"] = format.width;
  json["channels"] = format.channels;
  json["dtype"] = numpy_name(format.dtype);
  json["normalization"] = to_json(normalization);
}

ImageFormat parse_image(const JsonFields& root) {
  ImageFormat image{.height = root.integer("height", 1, kMaxSide),
                    .width = root.integer("width", 1, kMaxSide),
                    .channels = root.integer("channels", 1, kMaxChannels),
                    .dtype = parse_dtype(root),
                    .depth = root.has("depth") ? root.integer("depth", 1, kMaxSide) : 0};
  const double elements = static_cast<double>(std::max<int64_t>(1, image.depth)) * static_cast<double>(image.height) *
                          static_cast<double>(image.width) * static_cast<double>(image.channels);
  if (elements > static_cast<double>(kMaxImageElements)) {
    throw DatasetError("{}: images of {} × {} are larger than {} elements", root.place(), size_text(image),
                       image.channels, kMaxImageElements);
  }
  if (image.dtype == DType::i64) {
    throw DatasetError("{}: \"dtype\" is \"int64\", uint8 or float32 is wanted", root.place());
  }
  return image;
}

Normalization parse_normalization(const JsonFields& root, DType dtype) {
  const JsonFields object(root.object("normalization"), root.place() + ": normalization", {"scale", "offset"});
  const Normalization map = parse_map(object);
  if (dtype == DType::u8 && map != Normalization::of(DType::u8)) {
    throw DatasetError("{}: uint8 images are always x / 127.5 - 1, not x * {} + {}", object.place(), map.scale,
                       map.offset);
  }
  return map;
}

}  // namespace ddpm::data
