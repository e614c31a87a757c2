#include "data/transform_json.h"

#include <bit>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include "base/base64.h"
#include "base/error.h"
#include "base/json_fields.h"
#include "base/named.h"
#include "base/sha256.h"
#include "data/field.h"

namespace ddpm::data {

using base::DatasetError;
using base::Json;
using base::JsonFields;
using base::OrderedJson;

namespace {

static_assert(std::endian::native == std::endian::little, "float32 numbers are written as they are in memory");

constexpr const char* kSides = "sides";

std::string text_of(const std::vector<float>& numbers) { return base::to_base64(std::as_bytes(std::span(numbers))); }

std::vector<double> parse_points(const JsonFields& object, const char* key) {
  std::vector<double> numbers;
  for (const Json& number : object.array(key)) {
    if (!number.is_number() || numbers.size() == kMostPoints) {
      throw DatasetError("{}: \"{}\" holds {}, at most {} numbers are wanted", object.place(), key,
                         base::excerpt(number), kMostPoints);
    }
    numbers.push_back(number.get<double>());
  }
  return numbers;
}

std::vector<int64_t> parse_sides(const JsonFields& object) {
  std::vector<int64_t> sides;
  for (const Json& side : object.array(kSides)) {
    const bool fits = side.is_number_integer() && side.get<int64_t>() >= 1 && side.get<int64_t>() <= kMaxSide;
    if (!fits || sides.size() == 3) {
      throw DatasetError("{}: \"{}\" holds {}, two or three integers from 1 to {} are wanted", object.place(), kSides,
                         base::excerpt(side), kMaxSide);
    }
    sides.push_back(side.get<int64_t>());
  }
  return sides;
}

/// A float32 number for each of so many points.
std::vector<float> parse_numbers(const JsonFields& object, const char* key, int64_t points) {
  const auto bytes = base::from_base64(object.text(key));
  if (!bytes) throw DatasetError("{}: \"{}\" is not base64", object.place(), key);
  const uint64_t wanted = static_cast<uint64_t>(points) * sizeof(float);
  if (bytes->size() != wanted) {
    throw DatasetError("{}: \"{}\" holds {} bytes, {} are wanted: a float32 for each of {} points", object.place(), key,
                       bytes->size(), wanted, points);
  }
  std::vector<float> numbers(bytes->size() / sizeof(float));
  if (!numbers.empty()) std::memcpy(numbers.data(), bytes->data(), bytes->size());
  return numbers;
}

Transform parse_grid(const JsonFields& object, const TransformNumbers& keys) {
  PointScales scales{.sides = parse_sides(object), .mean = {}, .std = {}};
  const int64_t points = scales.points();
  scales.mean = parse_numbers(object, keys.first, points);
  scales.std = parse_numbers(object, keys.second, points);
  return Transform(std::move(scales));
}

}  // namespace

OrderedJson to_json(const Transform& map) {
  const TransformNumbers keys = numbers_of(map.type);
  OrderedJson json = {{"type", base::name_of(map.type)}};
  if (map.has_grid()) {
    json[kSides] = map.grid->sides;
    json[keys.first] = text_of(map.grid->mean);
    json[keys.second] = text_of(map.grid->std);
  } else if (map.has_points()) {
    json[keys.first] = map.from;
    json[keys.second] = map.to;
  } else {
    json[keys.first] = map.first;
    json[keys.second] = map.second;
  }
  return json;
}

OrderedJson short_json(const Transform& grid) {
  const TransformNumbers keys = numbers_of(grid.type);
  const auto digest = [](const std::vector<float>& numbers) {
    base::Sha256 sum;
    sum.update(std::as_bytes(std::span(numbers)));
    return OrderedJson{{"float32_values", numbers.size()}, {"sha256", sum.hex()}};
  };
  return {{"type", base::name_of(grid.type)},
          {kSides, grid.grid->sides},
          {keys.first, digest(grid.grid->mean)},
          {keys.second, digest(grid.grid->std)}};
}

Transform parse_transform(const Json& json, const std::string& where) {
  // The type first: the other keys follow from it.
  const auto type = JsonFields(json, where, {"type"}, JsonFields::Others::ignored).named<TransformType>("type");
  const TransformNumbers keys = numbers_of(type);
  std::vector<std::string_view> known = {"type", keys.first, keys.second};
  if (type == TransformType::grid) known.emplace_back(kSides);
  const JsonFields object(json, where, known);
  if (type == TransformType::grid) return parse_grid(object, keys);
  if (type == TransformType::quantile) return {parse_points(object, keys.first), parse_points(object, keys.second)};
  return {type, object.number(keys.first), object.number(keys.second)};
}

}  // namespace ddpm::data
